"""BROWSE: the list of problems, one problem, and levels by models."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import flask

from app.domain import aces, filter_language, pass_matrix
from app.domain.evaluation_row import EvaluationRow
from app.domain.metrics import Share
from app.domain.remark import AnnotationTarget
from app.store.browse import pass_matrix as outcomes
from app.store.browse import problems
from app.store.browse.runs import Counts
from app.store.review import remarks
from app.store.trajectory import checks
from app.web import formatting, live_updates, request_context, source_view, table_export
from app.web.charts import attempt_plot
from app.web.charts.heat_map import shade
from app.web.identity import requires
from app.web.pages import saved_views
from app.web.query_parameters import reads
from app.web.table_view import Column, Listing, View

LATEST = 60
"""Latest evaluations that are drawn."""
LISTED = 20
"""Evaluations shown on a problem's page."""
TESTED = 200
"""Latest evaluations with outcomes that weight the problem's tests."""

blueprint = flask.Blueprint("problems", __name__)


@dataclass(frozen=True, kw_only=True)
class ProblemLine:
    """A line of the list, in numbers."""

    problem_id: UUID
    source_set: str
    problem: str
    level: int | None
    attempts: int
    correct: int
    passed: int
    hacks: int
    faster_than_1: int
    geometric_mean: float | None
    best_speedup: float | None


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Measure shown by the heat map: a share of attempts."""

    name: str
    count: Callable[[Counts], int]
    of: Callable[[Counts], int]
    about: str


MEASURES = {
    "correct": Measure(
        name="correct",
        count=lambda c: c.correct,
        of=lambda c: c.attempts,
        about="right in every call and no hack",
    ),
    "fast": Measure(
        name="faster than 1×",
        count=lambda c: c.faster_than_1,
        of=lambda c: c.attempts,
        about="correct and faster than the eager reference",
    ),
    "fast2": Measure(
        name="faster than 2×",
        count=lambda c: c.faster_than_2,
        of=lambda c: c.attempts,
        about="correct and more than twice as fast as the eager reference",
    ),
    "hacks": Measure(
        name="hacks", count=lambda c: c.hacks, of=lambda c: c.attempts, about="judged a hack"
    ),
    "hacks_of_passed": Measure(
        name="hacks among passed",
        count=lambda c: c.passed - c.correct,
        of=lambda c: c.passed,
        about="hacks among those that passed every call",
    ),
}


LISTING = Listing(
    endpoint="problems.index",
    table="problems.table",
    key="problem_id",
    filters=("name", "set", "level"),
    sort="",
    cursors=("after", "before"),
    columns=(
        Column(name="problem", heading="Problem", is_long=True, sorts=True, is_head=True),
        Column(name="source_set", heading="Source set", sorts=True),
        Column(name="level", heading="Level", sorts=True, is_number=True),
        Column(name="attempts", heading="Attempts", sorts=True, is_number=True),
        Column(name="correct", heading="Correct", sorts=True, is_number=True),
        Column(name="faster_than_1", heading="> 1×", sorts=True, is_number=True),
        Column(name="hacks", heading="Hacks", sorts=True, is_number=True),
        Column(name="geometric_mean", heading="Geometric mean", sorts=True, is_number=True),
        Column(name="best_speedup", heading="Best speedup", sorts=True, is_number=True),
    ),
)


@blueprint.get("/problems")
@requires("read")
@LISTING.reads()
def index() -> str:
    """Problems with attempts, share of correct ones and best credited speedup."""
    view = LISTING.view()
    with request_context.database().snapshot() as connection:
        page = problems.page(connection, view.window, **_asked(view))
        sets, levels = problems.choices(connection)
        total = problems.total(connection, **_asked(view))
        saved = saved_views.of(connection, LISTING.endpoint)
    return flask.render_template(
        "problems.html",
        view=view,
        rows=[_line(row) for row in page.rows],
        total=total,
        saved=saved,
        sets=sets,
        levels=levels,
        **view.pages(page),
    )


@blueprint.get("/problems.<any(json,csv):kind>")
@requires("read")
@LISTING.reads()
def table(kind: str) -> flask.Response:
    """The same lines as data."""
    view = LISTING.view()
    with request_context.database().snapshot() as connection:
        page = problems.page(connection, view.window, **_asked(view))
    return view.data(kind, "problems", page, [_line(row) for row in page.rows])


@blueprint.get("/problems/levels")
@requires("read")
@reads("measure", "set")
def heat_map() -> str:
    """Levels by models, one share of attempts."""
    measure, source_set, cells = _cells()
    models = sorted({cell.model for cell in cells}, key=formatting.by_numbers)
    levels = sorted({cell.level for cell in cells}, key=lambda level: (level is None, level or 0))
    shares = {(cell.level, cell.model): _share(cell, measure) for cell in cells}
    most = max((share.value or 0.0 for share in shares.values()), default=0.0)
    with request_context.database().snapshot() as connection:
        sets, _ = problems.choices(connection)
    return flask.render_template(
        "heat_map.html",
        models=models,
        levels=levels,
        shares=shares,
        shades={
            key: shade((share.value or 0.0) / most if most else None)
            for key, share in shares.items()
        },
        measures=MEASURES,
        measure=measure,
        sets=sets,
        source_set=source_set,
        links=table_export.links("problems.heat_map_table", **flask.request.args),
    )


@blueprint.get("/problems/levels.<any(json,csv):kind>")
@requires("read")
@reads("measure", "set")
def heat_map_table(kind: str) -> flask.Response:
    """Every cell with its counts."""
    _, _, cells = _cells()
    lines = [{"level": cell.level, "model": cell.model, **vars(cell.counts)} for cell in cells]
    return table_export.answer(kind, "levels", lines)


@blueprint.get("/problems/<uuid:problem_id>")
@requires("read")
def page(problem_id: UUID) -> str:
    """The reference, outcomes of attempts, baselines, and the best candidates."""
    with request_context.database().snapshot() as connection:
        found = request_context.one(connection, "problem", problem_id, problems.read)
        notes = remarks.of(connection, AnnotationTarget.PROBLEM, problem_id)
    return flask.render_template(
        "problem.html",
        notes=notes,
        problem=found,
        **_body.shown(problem_id),
        listing=source_view.listing(found.reference),
        where=filter_language.unparse(_of(problem_id)),
    )


@blueprint.get("/problems/<uuid:problem_id>/reference.py")
@requires("read")
def reference(problem_id: UUID) -> flask.Response:
    """The reference exactly as it was submitted."""
    found = request_context.found("problem", problem_id, problems.read)
    return request_context.attachment(found.reference, f"reference-{problem_id}.py")


@live_updates.live_part(
    blueprint, "/problems/<uuid:problem_id>/live", "evaluations", "trajectories"
)
def _body(problem_id: UUID) -> str:
    with request_context.database().snapshot() as connection:
        problem = request_context.one(connection, "problem", problem_id, problems.read)
        found = problems.results(connection, problem, latest=LATEST)
        checked = checks.of_problem(connection, problem_id)
        tested = pass_matrix.matrix(outcomes.of_problem(connection, problem_id, limit=TESTED))
    counts = found.row.counts
    device, drawn = _of_one_device(found.latest)
    return flask.render_template(
        "_problem.html",
        page=found,
        listed=found.latest[:LISTED],
        drawn_device=device,
        drawn=attempt_plot.plot(
            [_attempt(row, place) for place, row in enumerate(reversed(drawn), 1)]
        ),
        checks=checked,
        tests=_tests(tested),
        tested=len(tested.rows),
        source_set=problem.source_set,
        line=_line(found.row),
        correct=Share(count=counts.correct, of=counts.attempts),
        hacks=Share(count=counts.hacks, of=counts.attempts),
        attempts=sum(found.statuses.values()),
        where=filter_language.unparse(_of(problem_id)),
    )


def _of_one_device(rows: Sequence[EvaluationRow]) -> tuple[str, list[EvaluationRow]]:
    """The device that timed most of them, and its rows: speedups of several devices
    are not compared.
    """
    timed = Counter(row.device_name for row in rows if row.measured_speedup is not None)
    device = timed.most_common(1)[0][0] if timed else ""
    return device, [row for row in rows if row.device_name == device]


def _attempt(row: EvaluationRow, place: int) -> attempt_plot.Attempt:
    return attempt_plot.Attempt(
        name=f"evaluation {str(row.evaluation_id)[-8:]}" + (f" of {row.run}" if row.run else ""),
        tick=str(place),
        url=flask.url_for("evaluations.page", evaluation_id=row.evaluation_id),
        outcome=str(row.status).replace("_", " "),
        label=row.verdict,
        speedup=row.measured_speedup,
        low=row.speedup_ci_low,
        high=row.speedup_ci_high,
    )


def _tests(tested: pass_matrix.Matrix) -> list[tuple[str, str, aces.Ranked]]:
    """Test, its outputs and its figures, heaviest first."""
    found = zip(tested.tests, tested.outputs, aces.rank(tested.rows, optimise=False), strict=True)
    return sorted(found, key=lambda one: -one[2].aces_c)


def _of(problem_id: UUID) -> filter_language.Compare:
    return filter_language.Compare(field="problem_id", operator="=", value=problem_id)


def _asked(view: View) -> dict[str, Any]:
    """Filters of `problems.page`."""
    return {
        "name": view.asked["name"],
        "source_set": view.asked["set"],
        "level": request_context.number_argument("level"),
    }


def _line(row: problems.ProblemRow) -> ProblemLine:
    counts, mean = row.counts, row.counts.mean_log_speedup
    return ProblemLine(
        problem_id=row.problem_id,
        source_set=row.source_set,
        problem=row.name,
        level=row.level,
        attempts=counts.attempts,
        correct=counts.correct,
        passed=counts.passed,
        hacks=counts.hacks,
        faster_than_1=counts.faster_than_1,
        geometric_mean=None if mean is None else math.exp(mean),
        best_speedup=row.best_speedup,
    )


def _cells() -> tuple[str, str, list[problems.Cell]]:
    measure = request_context.choice_argument("measure", MEASURES, "correct")
    source_set = request_context.argument("set")
    with request_context.database().snapshot() as connection:
        return measure, source_set, problems.heat_map(connection, source_set=source_set)


def _share(cell: problems.Cell, measure: str) -> Share:
    chosen = MEASURES[measure]
    return Share(count=chosen.count(cell.counts), of=chosen.of(cell.counts))
