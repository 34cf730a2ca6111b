"""BROWSE: search over everything by id, short id, name, or the hash of a source: a
quick list and a page of results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import flask
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Response

from app.domain import ids
from app.domain.filter_language import Compare, unparse
from app.domain.user import Scope
from app.store.browse import search
from app.web import body_limits, explained_findings, navigation, request_context, table_export
from app.web.identity import requires
from app.web.query_parameters import reads

blueprint = flask.Blueprint("search", __name__)

QUICK = 4
"""Hits of a kind in the quick list."""
WHOLE = 50
"""Hits of a kind on the page of results."""
MOST_CHARACTERS = 200
"""Longest text that is searched for."""
MOST_SOURCE_BYTES = 1 << 20
"""Longest source that is looked up by its hash."""

_URLS: dict[str, Callable[[str], str]] = {
    "evaluation": lambda found: flask.url_for("evaluations.page", evaluation_id=found),
    "candidate": lambda found: flask.url_for("evaluations.page", evaluation_id=found),
    "job": lambda found: flask.url_for("jobs.page", job_id=found),
    "trajectory": lambda found: flask.url_for("trajectories.page", trajectory_id=found),
    "problem": lambda found: flask.url_for("problems.page", problem_id=found),
    "run": lambda found: flask.url_for("runs.page", run_id=found),
    "dataset": lambda found: flask.url_for("exports.page", export_id=found),
    "export job": lambda found: flask.url_for("exports.job", export_job_id=found),
    "collection": lambda found: flask.url_for("collecting.page", collection_id=found),
    "model": lambda found: flask.url_for("runs.index", model=found),
    "tag": lambda found: flask.url_for("remarks.index", tag=found),
}
"""Kind of a hit → the page of it."""


@dataclass(frozen=True, kw_only=True)
class HitLine:
    """A hit with its page."""

    kind: str
    title: str
    detail: str
    short_id: str
    url: str


@blueprint.get("/search")
@requires("read")
@reads("q", "all")
def page() -> str | Response:
    """All hits by kind; leads to the thing itself where an id or a hash fits one only."""
    text = _text()
    lines, sole = _lines(text, WHOLE)
    if sole is not None and not request_context.flag_argument("all"):
        return flask.redirect(sole)
    return flask.render_template(
        "search.html",
        text=text,
        lines=lines,
        whole=WHOLE,
        links=table_export.links("search.table", q=text),
    )


@blueprint.get("/search/quick")
@requires("read")
@reads("q")
def quick() -> str:
    """The first hits of each kind, as options of a list box."""
    text = _text()
    return flask.render_template("_hits.html", text=text, lines=_lines(text, QUICK)[0])


@blueprint.get("/search.<any(json,csv):kind>")
@requires("read")
@reads("q")
def table(kind: str) -> flask.Response:
    """The hits as data."""
    return table_export.answer(kind, "hits", _lines(_text(), WHOLE)[0])


@blueprint.post("/search/source")
@requires(Scope.READ)
@body_limits.large
def source() -> Response:
    """Search for a source by its text or file: leads to the results for its SHA-256."""
    file = flask.request.files.get("file")
    body = file.read() if file else b""
    body = body or flask.request.form.get("source", "").replace("\r\n", "\n").encode(
        "utf-8", "surrogatepass"
    )
    if not body or len(body) > MOST_SOURCE_BYTES:
        raise BadRequest(
            f"source: expected text or a file of 1 to {MOST_SOURCE_BYTES} bytes, got {len(body)}"
        )
    return flask.redirect(flask.url_for("search.page", q=ids.sha256(body)))


def _text() -> str:
    text = request_context.argument("q")
    if len(text) > MOST_CHARACTERS:
        raise BadRequest(f"q: expected at most {MOST_CHARACTERS} characters, got {len(text)}")
    return text


def _lines(text: str, limit: int) -> tuple[list[HitLine], str | None]:
    """Hits, those by id first; and the page of the only hit by id, None where there
    are more or none.
    """
    if not text:
        return [], None
    with request_context.database().snapshot() as connection:
        hits = search.find(connection, text, limit=limit)
    lines = [_line(hit) for hit in hits]
    exact = {line.url for line, hit in zip(lines, hits, strict=True) if hit.by_id}
    return [*lines, *_pages(text)], exact.pop() if len(exact) == 1 else None


def _line(hit: search.Hit) -> HitLine:
    is_named = hit.kind in ("model", "tag")
    return HitLine(
        kind=hit.kind,
        title=hit.title,
        detail=hit.detail,
        short_id="" if is_named else hit.identifier[-8:],
        url=_URLS[hit.kind](hit.identifier),
    )


def _pages(text: str) -> list[HitLine]:
    """Detectors and pages of the navigation with the text in their names."""
    wanted = text.lower()
    detectors = [
        HitLine(
            kind="detector",
            title=title,
            detail=name,
            short_id="",
            url=flask.url_for("hacks.page", name=name),
        )
        for name, title in explained_findings.titles().items()
        if wanted in title.lower() or wanted in name
    ]
    entries = [
        HitLine(kind="page", title=entry.name, detail="", short_id="", url=entry.url)
        for entry in navigation.entries(flask.g.user)
        if wanted in entry.name.lower()
    ]
    filtered = Compare(field="problem", operator="~", value=text)
    more = HitLine(
        kind="filter",
        title=f"Evaluations of problems that contain “{text}”",
        detail=unparse(filtered),
        short_id="",
        url=flask.url_for("candidates.index", where=unparse(filtered)),
    )
    return [*detectors, *entries, more]
