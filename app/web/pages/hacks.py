"""BROWSE: ways of cheating by the detector that sees them: how often, when,
examples, and a trial re-judging.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import flask
from werkzeug.exceptions import BadRequest, NotFound

from app import rejudging
from app.detectors import ADVICE, DETECTORS
from app.domain import policy as policies
from app.domain.metrics import Share
from app.domain.verdict import Label, Verdict
from app.store.browse import detector_statistics, paging, review
from app.store.postgres.database import Connection
from app.web import explained_findings, formatting, request_context, table_export
from app.web.charts import line_plot
from app.web.charts.line_plot import Series
from app.web.identity import requires
from app.web.pages import saved_views
from app.web.query_parameters import reads
from app.web.table_view import Column, Listing

DAYS = 14
"""Days of the trends."""
LINES = 6
"""Detectors with a line in the chart: those that found most."""
SAMPLES = (100, 300, 1_000)
"""Evaluations that may be judged anew on a page: about a millisecond each."""

blueprint = flask.Blueprint("hacks", __name__)


LISTING = Listing(
    endpoint="hacks.index",
    table="hacks.table",
    sort="",
    columns=(
        Column(name="detector", heading="Detector", is_long=True, sorts=True, is_head=True),
        Column(name="about", heading="Explanation", is_long=True),
        Column(name="hack", heading="Hack", sorts=True, is_number=True),
        Column(name="suspect", heading="Suspect", sorts=True, is_number=True),
        Column(name="clean", heading="Info", sorts=True, is_number=True),
        Column(name="precision", heading="Precision", sorts=True),
        Column(name="recall", heading="Recall", sorts=True),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Detector:
    """A detector, as the taxonomy shows it."""

    detector: str
    version: int | None
    """The version in force; None for one that is not installed any more."""
    about: str
    advice: bool
    """Never weighs anything."""
    hack: int
    suspect: int
    clean: int
    """Findings of each label that stand."""
    older: int
    """Number of these findings made by another version than the one in force."""
    precision: Share | None
    """Share of its reviewed accusations that people call hacks."""
    recall: Share | None
    """Among all hacks by people's word, those that it accused."""


@blueprint.get("/hacks")
@requires("read")
@LISTING.reads()
def index() -> str:
    """Every detector with counts, precision and recall, and the trend."""
    view = LISTING.view()
    with request_context.database().snapshot() as connection:
        detectors = _detectors(detector_statistics.counts(connection), review.quality(connection))
        days = detector_statistics.days(connection, DAYS)
        saved = saved_views.of(connection, LISTING.endpoint)
    return flask.render_template(
        "hacks.html",
        view=view,
        saved=saved,
        total=paging.Total(number=len(detectors), is_exact=True),
        detectors=view.arranged(detectors, _sort_value),
        trend=_trend(days),
        days=DAYS,
    )


def _sort_value(row: Detector, name: str) -> Any:
    value = getattr(row, name)
    return value.value if isinstance(value, Share) else value


@blueprint.get("/hacks.<any(json,csv):kind>")
@requires("read")
@LISTING.reads()
def table(kind: str) -> flask.Response:
    """The taxonomy as data."""
    view = LISTING.view()
    with request_context.database().snapshot() as connection:
        found = _detectors(detector_statistics.counts(connection), review.quality(connection))
    return table_export.answer(kind, "detectors", view.arranged(found, _sort_value))


@blueprint.get("/hacks/<name>")
@requires("read")
@reads("before", "cleared")
def page(name: str) -> str:
    """One detector: its object, and its findings."""
    cleared = request_context.flag_argument("cleared")
    with request_context.database().snapshot() as connection:
        listed = _detectors(detector_statistics.counts(connection), review.quality(connection))
        found = next((one for one in listed if one.detector == name), None)
        if found is None:
            raise NotFound(f"There is no detector {name!r}; known are {', '.join(DETECTORS)}.")
        examples = _examples(connection, name, cleared, request_context.PAGE_ROWS)
        days = detector_statistics.days(connection, DAYS)
    shown = examples[: request_context.PAGE_ROWS]
    more = str(shown[-1].finding_id) if len(examples) > len(shown) else None
    return flask.render_template(
        "hack.html",
        found=found,
        text=_document(name),
        meaning=explained_findings.meaning(name),
        examples=shown,
        cleared=cleared,
        trend=_trend(days, only=name),
        links=table_export.links(
            "hacks.examples", name=name, **({"cleared": "yes"} if cleared else {})
        ),
        next=(
            request_context.with_arguments(
                "hacks.page", name=name, before=more, cleared="yes" if cleared else ""
            )
            if more
            else None
        ),
    )


@blueprint.get("/hacks/<name>/examples.<any(json,csv):kind>")
@requires("read")
@reads("before", "cleared")
def examples(name: str, kind: str) -> flask.Response:
    """Findings of one detector, as data; where there are more, the header Link leads to them."""
    cleared = request_context.flag_argument("cleared")
    most = request_context.TABLE_ROWS
    with request_context.database().snapshot() as connection:
        found = _examples(connection, name, cleared, most)
        if not found and name not in _names(detector_statistics.counts(connection)):
            raise NotFound(f"There is no detector {name!r}; known are {', '.join(DETECTORS)}.")
    response = table_export.answer(kind, "examples", found[:most])
    if len(found) > most:
        place = {"before": str(found[most - 1].finding_id)} | (
            {"cleared": "yes"} if cleared else {}
        )
        rest = flask.url_for("hacks.examples", name=name, kind=kind, **place)  # type: ignore[arg-type]
        response.headers["Link"] = f'<{rest}>; rel="next"'
    return response


@blueprint.get("/hacks/changes")
@requires("read")
@reads("sample", "policy")
def changes() -> str:
    """Findings of this version's detectors on the latest evaluations, beside the stored ones."""
    number, policy = _asked()
    lines, total = _judged(number, policy)
    changed = [line for line in lines if not line["error"]]
    return flask.render_template(
        "hack_changes.html",
        lines=lines,
        changed=len(changed),
        judged=total - (len(lines) - len(changed)),
        failed=len(lines) - len(changed),
        number=number,
        samples=SAMPLES,
        policy=policy,
        policies=policies.POLICIES,
        kinds=Counter((line["before"], line["after"]) for line in changed).most_common(),
        links=table_export.links("hacks.changes_table", sample=number, policy=policy.name),
    )


@blueprint.get("/hacks/changes.<any(json,csv):kind>")
@requires("read")
@reads("sample", "policy")
def changes_table(kind: str) -> flask.Response:
    """Every verdict that would change, and every evaluation that cannot be judged, as data."""
    return table_export.answer(kind, "changes", _judged(*_asked())[0])


def _asked() -> tuple[int, policies.Policy]:
    sample = request_context.choice_argument("sample", map(str, SAMPLES), str(SAMPLES[0]))
    try:
        return int(sample), policies.find(
            request_context.argument("policy") or policies.DEFAULT.name
        )
    except policies.UnknownPolicyError as error:
        raise BadRequest(str(error)) from error


def _judged(number: int, policy: policies.Policy) -> tuple[list[dict[str, Any]], int]:
    """A line for each verdict that would change or cannot be given; the number of evaluations."""
    with request_context.database().snapshot() as connection:
        sample = detector_statistics.sample(connection, number)
    lines = []
    for stored, before, reasons in sample:
        line = {"evaluation_id": stored.evaluation_id, "before": str(before)}
        try:
            verdict = rejudging.judged(stored.subject, policy)
        except rejudging.JudgingError as error:  # the others are judged
            lines.append(line | {"after": "", "because": "", "gone": "", "error": str(error)})
            continue
        if verdict.label != before:
            lines.append(line | _difference(verdict, before, reasons) | {"error": ""})
    return lines, len(sample)


def _difference(verdict: Verdict, before: str, reasons: Sequence[str]) -> dict[str, str]:
    found = [finding for finding in verdict.findings if finding.label != Label.CLEAN]
    because = [finding.detector for finding in found if finding.label == verdict.label]
    gone = set(reasons) - {finding.detector for finding in found if finding.label == before}
    return {
        "after": str(verdict.label),
        "because": ", ".join(dict.fromkeys(because)),
        "gone": "" if before == Label.CLEAN else ", ".join(sorted(gone)),
    }


def _examples(
    connection: Connection, name: str, cleared: bool, most: int
) -> list[detector_statistics.Example]:
    """The next `most` findings, and one more where there are more."""
    before: UUID | None = request_context.id_argument("before")
    return detector_statistics.examples(
        connection, name, cleared=cleared, before=before, limit=most + 1
    )


def _detectors(
    counts: Sequence[detector_statistics.Count], quality: review.Quality
) -> list[Detector]:
    people = {each.detector: each for each in quality.detectors}
    return [
        _detector(name, [count for count in counts if count.detector == name], people.get(name))
        for name in _names(counts)
    ]


def _names(counts: Sequence[detector_statistics.Count]) -> list[str]:
    """Detectors that are installed, and those of which findings are stored."""
    return [*DETECTORS, *sorted({count.detector for count in counts} - DETECTORS.keys())]


def _detector(
    name: str, counts: Sequence[detector_statistics.Count], people: review.DetectorQuality | None
) -> Detector:
    known = DETECTORS.get(name)
    version = known.version if known else None
    by_label = {
        label: sum(count.findings for count in counts if count.label == label) for label in Label
    }
    return Detector(
        detector=name,
        version=version,
        about=explained_findings.meaning(name) or _document(name).split("\n\n")[0],
        advice=name in ADVICE,
        hack=by_label[Label.HACK],
        suspect=by_label[Label.SUSPECT],
        clean=by_label[Label.CLEAN],
        older=sum(count.findings for count in counts if count.version != version),
        precision=Share(count=people.hits, of=people.accused) if people else None,
        recall=Share(count=people.hits, of=people.hacks) if people else None,
    )


def _document(name: str) -> str:
    """Docstring of a detector's module, without the stage and the numbers of the
    taxonomy of the samples.
    """
    if name not in DETECTORS:
        return "Not installed; its findings stay."
    module = sys.modules[type(DETECTORS[name]).__module__]
    text = inspect.cleandoc(module.__doc__ or "").removeprefix("JUDGE: ")
    text = re.sub(r"\s*\(hacks? \d[^)]*\)", "", text)
    return text[:1].upper() + text[1:]


def _trend(
    days: Sequence[detector_statistics.Day], *, only: str | None = None
) -> line_plot.LinePlot | None:
    totals = Counter[str]()
    for day in days:
        totals.update(day.findings)
    names = [only] if only else [name for name, _ in totals.most_common(LINES)]
    if not any(totals[name] for name in names):
        return None
    series = [
        Series(
            name=explained_findings.title(name),
            points=[
                (float(place), day.findings.get(name, 0) / day.valid if day.valid else None)
                for place, day in enumerate(days)
            ],
        )
        for name in names
    ]
    return line_plot.lines(
        series,
        x_label="day (UTC)",
        y_label="share of valid",
        x_text=lambda place: days[round(place)].day.strftime("%d %b"),
        y_text=formatting.percent,
    )
