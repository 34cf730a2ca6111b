"""BROWSE: datasets: filter, live funnel, preview, the job that makes one, and finished ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import flask
from werkzeug.exceptions import BadRequest, Conflict, Forbidden, Gone, NotFound
from werkzeug.wrappers import Response

from app import formats
from app.domain import filter_fields
from app.domain.filter_tokens import WhereError
from app.domain.user import Scope
from app.export import background
from app.store.browse import exports as browse
from app.store.browse import paging
from app.store.dataset import export_jobs, exports
from app.store.user import audit
from app.web import export_actions, export_subprocess, live_updates, quick_counts, request_context
from app.web.dataset_archive import present, tar
from app.web.identity import current_user, requires
from app.web.pages import saved_views
from app.web.query_parameters import reads
from app.web.selection_form import FIELDS, OPTIONS, arguments, as_json, located, spec_of
from app.web.table_view import Column, Listing

PREVIEWED = 5
"""Rows of a preview."""

LISTING = Listing(
    endpoint="exports.index",
    table="exports.table",
    key="export_id",
    columns=(
        Column(name="name", heading="Dataset", is_long=True, sorts=True, is_head=True),
        Column(name="format", heading="Format", sorts=True),
        Column(name="rows", heading="Rows", sorts=True, is_number=True),
        Column(name="where", heading="Filter", is_long=True),
        Column(name="stale_at", heading="Status", sorts=True),
        Column(name="created_at", heading="Created", sorts=True, is_number=True),
    ),
)

blueprint = flask.Blueprint("exports", __name__)


@blueprint.get("/exports")
@requires("read")
@LISTING.reads()
def index() -> str:
    """Datasets and those that are being made, newest first."""
    view = LISTING.view()
    with request_context.database().snapshot() as connection:
        saved = saved_views.of(connection, LISTING.endpoint)
    return flask.render_template("exports.html", view=view, saved=saved, **_listed.shown())


@blueprint.get("/exports.<any(json,csv):kind>")
@requires("read")
@LISTING.reads()
def table(kind: str) -> flask.Response:
    """The list as data."""
    view = LISTING.view()
    with request_context.database().snapshot() as connection:
        page = browse.page(connection, view.window)
    return view.data(kind, "exports", page)


@blueprint.get("/exports/new")
@requires("read")
@reads(*FIELDS, "preview", "count")
def new() -> flask.Response | str | tuple[str, int]:
    """A selection, its counts and its first rows.  Its script asks for the counts when the form is
    on the screen; `count` has them on the page.
    """
    return _form({name: request_context.argument(name) for name in FIELDS})


@blueprint.post("/exports/selected")
@requires(Scope.READ)
def selected() -> Response | str | tuple[str, int]:
    """The selection on the screen, counted, previewed or made into a dataset: the form is one, so
    that the dataset is the preview.
    """
    form = {name: flask.request.form.get(name, "").strip() for name in FIELDS}
    given: dict[str, Any] = {name: value for name, value in form.items() if value}
    match flask.request.form.get("action", "count"):
        case "make":
            try:
                spec_of(form)
            except ValueError:
                return _form(form)
            if not current_user().may(Scope.EXPORT):
                raise Forbidden("Making a dataset needs the scope export.")
            return make()
        case "whole":
            return flask.redirect(flask.url_for("exports.whole_funnel", **given), 303)
        case "preview":
            return flask.redirect(flask.url_for("exports.new", **given, preview="yes"), 303)
        case "count":
            return flask.redirect(flask.url_for("exports.new", **given, count="yes"), 303)
        case other:
            raise BadRequest(f"action: expected count, preview, whole or make, got {other!r}")


def _form(form: dict[str, str]) -> flask.Response | str | tuple[str, int]:
    shown: dict[str, Any] = {
        "asked": form,
        "options": OPTIONS,
        "chosen": [name for name, value in form.items() if value],
        "formats": formats.known(),
        "fields": filter_fields.FIELDS,
        "may_export": current_user().may(Scope.EXPORT),
        "funnel": "",
        "whole": quick_counts.WHOLE,
    }
    try:
        spec = spec_of(form)
    except ValueError as error:
        at = "where" if isinstance(error, WhereError) else located(str(error))
        return (
            flask.render_template("new_export.html", error=error, at=at, steps=None, **shown),
            400,
        )
    if request_context.flag_argument("count"):
        shown["funnel"] = quick_counts.render(spec)
    if request_context.flag_argument("preview"):
        asked = {"spec": as_json(spec), "rows": PREVIEWED}
        return _streamed(
            "new_export.html",
            export_subprocess.steps(request_context.settings(), "preview", asked),
            error=None,
            at="",
            **shown,
        )
    return flask.render_template("new_export.html", error=None, at="", steps=None, **shown)


def _streamed(
    template: str, steps: Iterator[export_subprocess.Step], **shown: Any
) -> flask.Response:
    """A page that is sent as its last part progresses: it is never too late for it,
    and ends with its reader.
    """
    response = flask.Response(
        flask.stream_template(template, steps=steps, **shown), mimetype="text/html"
    )
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"  # nginx would hold progress back
    return response


@blueprint.get("/exports/funnel")
@requires("read")
@reads(*FIELDS, "first")
def funnel() -> tuple[str, int]:
    """The live part of the form: counts, or the error in the selection."""
    try:
        return (
            quick_counts.render(
                spec_of(flask.request.args), is_first=request_context.flag_argument("first")
            ),
            200,
        )
    except ValueError as error:
        return flask.render_template("_funnel.html", stages=[], error=str(error)), 200


@blueprint.get("/exports/funnel/whole")
@requires(Scope.EXPORT)
@reads(*FIELDS)
def whole_funnel() -> flask.Response:
    """The whole selection, stage by stage, near-duplicates and choice included;
    shows progress until it is counted.
    """
    try:
        spec = spec_of(flask.request.args)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    steps = export_subprocess.steps(request_context.settings(), "funnel", {"spec": as_json(spec)})
    back = request_context.with_arguments(
        "exports.new", **{name: flask.request.args.get(name, "") for name in FIELDS}
    )
    return _streamed("whole_funnel.html", steps, most=request_context.PAGE_ROWS, back=back)


@blueprint.post("/exports")
@requires(Scope.EXPORT)
def make() -> Response:
    """Have the dataset made."""
    form = {name: value for name, value in flask.request.form.items() if name in FIELDS}
    try:
        spec = spec_of(form)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    try:
        export_job_id = export_actions.start(spec, as_json(spec))
    except background.BusyError as error:
        raise Conflict(str(error)) from error
    return flask.redirect(flask.url_for("exports.job", export_job_id=export_job_id))


@blueprint.get("/exports/jobs/<uuid:export_job_id>")
@requires("read")
def job(export_job_id: UUID) -> str:
    """Progress of a dataset."""
    return flask.render_template(
        "export_job.html", export_job_id=export_job_id, **_job.shown(export_job_id)
    )


@blueprint.post("/exports/jobs/<uuid:export_job_id>/<any(cancel,resume):action>")
@requires(Scope.EXPORT)
def change_job(export_job_id: UUID, action: str) -> Response:
    """Stop a job, or have one without a process taken up again."""
    found = request_context.found("export job", export_job_id, export_jobs.get)
    if action == "resume" and found.state not in background.RESUMABLE:
        expected = " or ".join(background.RESUMABLE)
        raise Conflict(f"Expected a job that is {expected}, got one that is {found.state}.")
    change = export_actions.cancel if action == "cancel" else export_actions.resume
    change(export_job_id)
    return flask.redirect(flask.url_for("exports.job", export_job_id=export_job_id))


@blueprint.get("/exports/<uuid:export_id>")
@requires("read")
def page(export_id: UUID) -> str:
    """One dataset: manifest, card, checksums, files, and how to make it again."""
    found = _read(export_id)
    folder = Path(found.directory)
    with request_context.database().snapshot() as connection:
        latest = browse.page(connection, paging.Window(limit=100)).rows
        others = [row for row in latest if row.export_id != export_id]
    return flask.render_template(
        "export.html",
        export=found,
        manifest=found.manifest,
        present=folder.is_dir(),
        card=_card(folder / "README.md"),
        others=others,
        selection=arguments(found.manifest.get("spec", {})),
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
    path = present(found).absolute() / name
    if not path.is_file():
        raise Gone(f"The file {path} is not on this machine any more.")
    is_text = path.suffix in (".md", ".json", ".jsonl", ".txt")
    kind = "text/plain" if is_text else "application/octet-stream"
    return flask.send_file(path, mimetype=kind, as_attachment=True, download_name=path.name)


@blueprint.get("/exports/<uuid:export_id>/dataset.tar")
@requires("read")
def archive(export_id: UUID) -> Response:
    """Every file of the dataset as one archive, written while it is read."""
    found = _read(export_id)
    folder = present(found)
    names = ["manifest.json", *(each["path"] for each in found.manifest["files"])]
    top = f"{found.manifest['format']}-{str(export_id)[-8:]}"
    response = flask.Response(tar(folder, names, top), mimetype="application/x-tar")
    response.headers.set("Content-Disposition", "attachment", filename=f"{top}.tar")
    return response


@blueprint.post("/exports/<uuid:export_id>/describe")
@requires(Scope.EXPORT)
def describe(export_id: UUID) -> Response:
    """Name and describe a dataset."""
    name, text = flask.request.form.get("name", ""), flask.request.form.get("description", "")
    _read(export_id)
    try:
        with request_context.database().begin() as connection:
            exports.describe(connection, export_id, name=name, description=text)
            target, facts = f"export {export_id}", {"name": name.strip()}
            audit.record(connection, current_user(), "export.describe", target, facts)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    return flask.redirect(flask.url_for("exports.page", export_id=export_id))


@blueprint.get("/exports/<uuid:export_id>/diff")
@requires("read")
@reads("against")
def diff(export_id: UUID) -> str:
    """Differences between this dataset and an earlier one."""
    ours = _read(export_id)
    other = request_context.id_argument("against")
    if other is None:
        raise BadRequest("against: expected the id of another dataset, got nothing")
    theirs = _read(other)
    asked = {"before": str(present(theirs)), "after": str(present(ours))}
    return flask.render_template(
        "export_diff.html",
        ours=ours,
        theirs=theirs,
        found=export_subprocess.ask(request_context.settings(), "diff", asked),
    )


@live_updates.live_part(blueprint, "/exports/live", "exports", "export_jobs")
@LISTING.reads()
def _listed() -> str:
    view = LISTING.view()
    with request_context.database().snapshot() as connection:
        page = browse.page(connection, view.window)
        open_jobs = [one for one in export_jobs.recent(connection) if one.state != "finished"]
        total = browse.total(connection)
    return flask.render_template(
        "_exports.html",
        view=view,
        rows=page.rows,
        total=total,
        jobs=open_jobs,
        **view.pages(page),
    )


@live_updates.live_part(
    blueprint, "/exports/jobs/<uuid:export_job_id>/live", "export_jobs", endpoint="job_live"
)
def _job(export_job_id: UUID) -> str:
    found = request_context.found("export job", export_job_id, export_jobs.get)
    return flask.render_template("_export_job.html", job=found, selection=arguments(found.spec))


def _card(file: Path) -> dict[str, str]:
    """Metadata and text of a dataset's card; both empty without one."""
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    _, mark, rest = text.partition("---\n") if text.startswith("---\n") else ("", "", "")
    metadata, end, body = rest.partition("\n---\n")
    return {"metadata": metadata, "text": body} if mark and end else {"metadata": "", "text": text}


def _read(export_id: UUID) -> exports.Export:
    return request_context.found("dataset", export_id, exports.get)
