"""BROWSE: datasets: filter, live funnel, preview, the job that makes one, and what was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import flask
import msgspec
from werkzeug.exceptions import BadRequest, Conflict, Gone, NotFound
from werkzeug.wrappers import Response

from app import formats
from app.detectors import DETECTORS
from app.domain import policy as policies
from app.domain import where
from app.domain.near_duplicates import Similarity
from app.domain.selection import BestOf, Kind, Reasoning, Spec, Stale, Turns
from app.domain.user import Scope
from app.export import jobs
from app.export.work import kind_of
from app.store import audit, export_jobs, exports
from app.store.browse import exports as browse
from app.store.session import DatabaseUnavailableError
from app.web import context, errands, live, tabular
from app.web.identity import current_user, requires

PREVIEWED = 5
TOPICS = ("exports", "export_jobs")
CHOICES: dict[str, tuple[str, ...]] = {
    "kind": tuple(Kind),
    "turns": tuple(Turns),
    "best_of": tuple(BestOf),
    "similarity": tuple(Similarity),
    "reasoning": tuple(Reasoning),
    "stale": tuple(Stale),
    "policy": tuple(policies.POLICIES),
}
"""Fields of a selection with a list to choose from."""
NUMBERS = {
    "min_speedup": "Least low end of the speedup's interval",
    "max_speedup": "Greatest speedup that is believed",
    "min_coverage": "Least share of time in own kernels",
    "reviewed_above": "Above this speedup only what people reviewed",
    "k": "k, of top_k",
    "max_tokens": "Most tokens of a row",
    "max_per_problem": "Most rows of a problem",
    "seed": "Seed",
    "val_fraction": "Share held out for validation",
}
"""Fields that are numbers, and what they say to people."""
FIELDS = ("format", "where", *CHOICES, *NUMBERS)

blueprint = flask.Blueprint("exports", __name__)


@blueprint.get("/exports")
@requires("read")
def index() -> str:
    """Datasets and those that are being made, newest first."""
    key = f"exports {flask.request.query_string.decode()}"
    body, etag = live.fragment(key, TOPICS, _listed)
    return flask.render_template("exports.html", body=body, etag=etag, topics=",".join(TOPICS))


@blueprint.get("/exports/live")
@requires("read")
def live_part() -> flask.Response:
    """The live part of the page."""
    return live.answer(f"exports {flask.request.query_string.decode()}", TOPICS, _listed)


@blueprint.get("/exports.<any(json,csv):kind>")
@requires("read")
def table(kind: str) -> flask.Response:
    """The list as data."""
    return tabular.answer(kind, "exports", _page().rows)


@blueprint.get("/exports/new")
@requires("read")
def new() -> str | tuple[str, int]:
    """A selection, what it would keep, and its first rows."""
    context.known_arguments(*FIELDS, "preview")
    shown: dict[str, Any] = {
        "asked": {name: context.argument(name) for name in FIELDS},
        "choices": CHOICES,
        "numbers": NUMBERS,
        "formats": formats.known(),
        "fields": where.FIELDS,
        "may_export": current_user().may(Scope.EXPORT),
        "rows": None,
        "funnel": "",
    }
    try:
        spec = _spec(flask.request.args)
    except ValueError as error:
        return flask.render_template("new_export.html", error=str(error), **shown), 400
    shown["funnel"] = _funnel(spec)
    if context.argument("preview"):
        asked = {"spec": _as_json(spec), "rows": PREVIEWED}
        shown["rows"] = errands.ask(context.settings(), "preview", asked)["rows"]
    return flask.render_template("new_export.html", error=None, **shown)


@blueprint.get("/exports/funnel")
@requires("read")
def funnel() -> tuple[str, int]:
    """The live part of the form: counts, or what is wrong with the selection."""
    try:
        return _funnel(_spec(flask.request.args)), 200
    except ValueError as error:
        return flask.render_template("_funnel.html", stages=[], error=str(error)), 200


@blueprint.get("/exports/funnel/whole")
@requires("read")
def whole_funnel() -> str:
    """The whole selection, stage by stage, near-duplicates and choice included; takes its time."""
    try:
        spec = _spec(flask.request.args)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    found = errands.ask(context.settings(), "funnel", {"spec": _as_json(spec)})
    problems = sorted(found["problems"], key=lambda one: (-one["rows"], one["problem"]))
    back = context.with_arguments("exports.new", **{name: flask.request.args.get(name, "") for name in FIELDS})
    return flask.render_template("whole_funnel.html", found=found, problems=problems[: context.PAGE_ROWS], back=back)


@blueprint.post("/exports")
@requires(Scope.EXPORT)
def make() -> Response:
    """Have the dataset made."""
    form = {name: value for name, value in flask.request.form.items() if name in FIELDS}
    try:
        spec = _spec(form)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    try:
        export_job_id = jobs.start(context.database(), spec, context.settings().state_dir / jobs.FOLDER)
    except jobs.BusyError as error:
        raise Conflict(str(error)) from error
    with context.database().begin() as connection:
        details = {"spec": _as_json(spec)}
        audit.record(connection, current_user(), "export.add", f"export job {export_job_id}", details)
    return flask.redirect(flask.url_for("exports.job", export_job_id=export_job_id))


@blueprint.get("/exports/jobs/<uuid:export_job_id>")
@requires("read")
def job(export_job_id: UUID) -> str:
    """Progress of a dataset."""
    body, etag = live.fragment(f"export job {export_job_id}", TOPICS, lambda: _job(export_job_id))
    return flask.render_template(
        "export_job.html", export_job_id=export_job_id, body=body, etag=etag, topics=",".join(TOPICS)
    )


@blueprint.get("/exports/jobs/<uuid:export_job_id>/live")
@requires("read")
def job_live(export_job_id: UUID) -> flask.Response:
    """The live part of the page."""
    return live.answer(f"export job {export_job_id}", TOPICS, lambda: _job(export_job_id))


@blueprint.post("/exports/jobs/<uuid:export_job_id>/<any(cancel,resume):action>")
@requires(Scope.EXPORT)
def change_job(export_job_id: UUID, action: str) -> Response:
    """Stop a job, or have one without a process taken up again."""
    with context.database().begin() as connection:
        if export_jobs.get(connection, export_job_id) is None:
            context.missing("export job", export_job_id)
        audit.record(connection, current_user(), f"export.{action}", f"export job {export_job_id}")
    if action == "cancel":
        jobs.cancel(context.database(), export_job_id)
    else:
        jobs.resume(context.database(), export_job_id)
    return flask.redirect(flask.url_for("exports.job", export_job_id=export_job_id))


@blueprint.get("/exports/<uuid:export_id>")
@requires("read")
def page(export_id: UUID) -> str:
    """One dataset: manifest, card, checksums, files, and how to make it again."""
    found = _read(export_id)
    folder = Path(found.directory)
    card = folder / "README.md"
    with context.database().snapshot() as connection:
        others = [row for row in browse.page(connection, limit=100).rows if row.export_id != export_id]
    return flask.render_template(
        "export.html",
        export=found,
        manifest=found.manifest,
        present=folder.is_dir(),
        card=card.read_text(encoding="utf-8", errors="replace") if card.is_file() else None,
        others=others,
        selection=_arguments(found.manifest.get("spec", {})),
        links={"json": flask.url_for("exports.manifest", export_id=export_id)},
    )


@blueprint.get("/exports/<uuid:export_id>/manifest.json")
@requires("read")
def manifest(export_id: UUID) -> flask.Response:
    """The manifest, as sealed."""
    return flask.jsonify(_read(export_id).manifest)


@blueprint.get("/exports/<uuid:export_id>/files/<path:name>")
@requires("read")
def file(export_id: UUID, name: str) -> Response:
    """A file of the dataset; only those that its manifest names, and the manifest itself."""
    found = _read(export_id)
    if name not in {"manifest.json", *(entry["path"] for entry in found.manifest["files"])}:
        raise NotFound(f"The dataset has no file {name!r}.")
    path = Path(found.directory) / name
    if not path.is_file():
        raise Gone(f"The folder {found.directory} is not on this machine any more; `assay reproduce` makes it again.")
    kind = "text/plain" if path.suffix in (".md", ".json", ".jsonl", ".txt") else "application/octet-stream"
    return flask.send_file(path, mimetype=kind, as_attachment=True, download_name=path.name)


@blueprint.get("/exports/<uuid:export_id>/diff")
@requires("read")
def diff(export_id: UUID) -> str:
    """Differences between this dataset and an earlier one."""
    context.known_arguments("against")
    ours = _read(export_id)
    other = context.id_argument("against")
    if other is None:
        raise BadRequest("against: expected the id of another dataset, got nothing")
    theirs = _read(other)
    for each in (ours, theirs):
        if not Path(each.directory).is_dir():
            raise Gone(f"The folder {each.directory} is not on this machine any more.")
    asked = {"before": theirs.directory, "after": ours.directory}
    return flask.render_template(
        "export_diff.html", ours=ours, theirs=theirs, found=errands.ask(context.settings(), "diff", asked)
    )


def _listed() -> str:
    page = _page()
    with context.database().snapshot() as connection:
        open_jobs = [one for one in export_jobs.recent(connection) if one.state != "finished"]
    first, last = (page.rows[0].export_id, page.rows[-1].export_id) if page.rows else (None, None)
    here = "exports.index"
    return flask.render_template(
        "_exports.html",
        rows=page.rows,
        jobs=open_jobs,
        links=tabular.links("exports.table", **flask.request.args),
        previous=context.with_arguments(here, newer_than=str(first)) if page.has_previous else None,
        next=context.with_arguments(here, older_than=str(last)) if page.has_next else None,
    )


def _page() -> Any:
    context.known_arguments("older_than", "newer_than")
    with context.database().snapshot() as connection:
        return browse.page(
            connection,
            older_than=context.id_argument("older_than"),
            newer_than=context.id_argument("newer_than"),
            limit=context.PAGE_ROWS,
        )


def _job(export_job_id: UUID) -> str:
    with context.database().snapshot() as connection:
        found = export_jobs.get(connection, export_job_id) or context.missing("export job", export_job_id)
    return flask.render_template("_export_job.html", job=found, selection=_arguments(found.spec))


def _read(export_id: UUID) -> exports.Export:
    with context.database().snapshot() as connection:
        return browse.read(connection, export_id) or context.missing("dataset", export_id)


def _funnel(spec: Spec) -> str:
    """Counts, or that counting takes too long for a page."""
    versions = {name: detector.version for name, detector in DETECTORS.items()}
    policy = policies.find(spec.policy).key if spec.policy else policies.DEFAULT.key
    kind = spec.kind or formats.find(spec.format).kinds[0]
    try:
        with context.database().snapshot() as connection:
            stages = browse.quick_funnel(connection, spec, kind, policy=policy, detectors=versions)
    except DatabaseUnavailableError:
        return flask.render_template("_funnel.html", stages=[], error="Counting takes too long; count everything.")
    return flask.render_template("_funnel.html", stages=stages, error=None)


def _spec(given: Any) -> Spec:
    """The selection that a form or a URL asks for.  ValueError with the field that makes no sense."""
    values = {name: str(given[name]).strip() for name in FIELDS if str(given.get(name, "")).strip()}
    where.parse(values.get("where", ""))
    try:
        spec = msgspec.convert(values, Spec, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    kind_of(spec)
    return spec


def _as_json(spec: Spec) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins({name: getattr(spec, name) for name in spec.__dataclass_fields__})
    return found


def _arguments(spec: dict[str, Any]) -> dict[str, str]:
    """Fields of a selection that differ from the default, as arguments of the form."""
    usual = _as_json(Spec())
    return {name: str(spec[name]) for name in FIELDS if spec.get(name) not in (None, "") and spec[name] != usual[name]}
