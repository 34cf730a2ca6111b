"""BROWSE: `/v1/exports`: have a dataset made, watch it, fetch its files."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import flask
from msgspec import Struct, inspect
from werkzeug.exceptions import Gone, NotFound

from app.domain import freeform
from app.domain.dataset.selection import COUNTER, Spec
from app.domain.request import ConflictError, RequestError
from app.domain.user import Scope
from app.export import background
from app.export.manifest import NAME, spec_json, spec_of
from app.export.working_folder import ExportError
from app.store.dataset import export_jobs, exports
from app.store.dataset.export_jobs import ExportJob
from app.web import export_actions, request_context
from app.web.api import integers, schema_constraints
from app.web.api.endpoint import answer, operation, refuse

RETRY_S = 30
"""Seconds after which to ask again while the limit of exports is reached."""
_SOURCE_SET = re.compile(schema_constraints.SOURCE_SET)


class ExportBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """Content of the dataset: fields of app.domain.dataset.selection.Spec, as `assay export
    --spec` and manifests have them.
    """

    spec: dict[str, Any]


class ExportAnswer(Struct, kw_only=True):
    """Progress of a dataset."""

    export_job_id: UUID
    state: str
    """`queued`, `running`, `finished`, `failed`, `cancelled`, or `interrupted` where
    its process was lost.
    """
    stage: str
    done: int
    total: int
    """0 where it is not known."""
    spec: dict[str, Any]
    error: str | None
    export_id: UUID | None
    stale_at: datetime | None
    """Once it is finished: time at which a verdict that its rows rest on came out
    otherwise; null while all stand.
    """
    stale_reason: str | None
    files: list[str]
    """Once it is finished: the files that `/files/<name>` serves."""
    created_at: datetime
    finished_at: datetime | None


class ExportList(Struct, kw_only=True):
    """The latest, newest first."""

    exports: list[ExportAnswer]


@operation(
    "POST",
    "/exports",
    Scope.EXPORT,
    body=ExportBody,
    answers={202: ExportAnswer},
    refusals=(409, 413, 429),
)
def create(body: ExportBody) -> flask.Response:
    """Have a dataset made, by a process of its own."""
    spec = _spec(body.spec)
    try:
        export_job_id = export_actions.start(spec, spec_json(spec))
    except background.BusyError as error:
        refuse(429, "too_many_requests", str(error), retry_after_s=RETRY_S)
    except ExportError as error:  # each field may have its value, but not all of them together
        raise ConflictError(f"spec: {error}") from error
    except (ValueError, LookupError) as error:
        raise RequestError(f"spec: {error}") from error
    url = flask.url_for("api.exports_read", export_job_id=export_job_id)
    return answer(_described(_job(export_job_id)), 202, Location=url)


@operation("GET", "/exports", Scope.READ, answers={200: ExportList})
def index() -> flask.Response:
    """The latest exports, newest first."""
    with request_context.database().snapshot() as connection:
        found = export_jobs.recent(connection)
    return answer({"exports": [_described(each) for each in found]})


@operation(
    "GET", "/exports/<uuid:export_job_id>", Scope.READ, answers={200: ExportAnswer}, refusals=(404,)
)
def read(export_job_id: UUID) -> flask.Response:
    """Progress of a dataset."""
    return answer(_described(_job(export_job_id)))


@operation(
    "POST",
    "/exports/<uuid:export_job_id>:resume",
    Scope.EXPORT,
    answers={202: ExportAnswer},
    refusals=(404, 409),
)
def resume(export_job_id: UUID) -> flask.Response:
    """Go on with a dataset after its process was lost."""
    if (state := _job(export_job_id).state) not in background.RESUMABLE:
        expected = " or ".join(background.RESUMABLE)
        refuse(409, "conflict", f"expected an export that is {expected}, got one that is {state}")
    export_actions.resume(export_job_id)
    return answer(_described(_job(export_job_id)), 202)


@operation(
    "DELETE",
    "/exports/<uuid:export_job_id>",
    Scope.EXPORT,
    answers={200: ExportAnswer},
    refusals=(404,),
)
def cancel(export_job_id: UUID) -> flask.Response:
    """Stop making it; finished files stay."""
    _job(export_job_id)
    export_actions.cancel(export_job_id)
    return answer(_described(_job(export_job_id)))


@operation(
    "GET",
    "/exports/<uuid:export_job_id>/files/<path:name>",
    Scope.READ,
    answers={200: None},
    refusals=(404, 410),
    media="application/octet-stream",
)
def download(export_job_id: UUID, name: str) -> flask.Response:
    """A file of the dataset: one of those that its manifest names, or the manifest."""
    job = _job(export_job_id)
    if name not in _files(_made(job)):
        raise NotFound(f"the dataset has no file {name!r}")
    path = Path(job.directory) / name
    if not path.is_file():
        raise Gone(f"{job.directory} is not on this machine any more")
    return flask.send_file(
        path.absolute(), mimetype="application/octet-stream", as_attachment=True, conditional=True
    )


def _spec(given: dict[str, Any]) -> Spec:
    """The selection.  No file of this machine is read because a request names it."""
    freeform.check(given, "spec")
    try:
        spec = spec_of(integers.numbers(given, inspect.type_info(Spec)))
    except (ValueError, TypeError) as error:
        raise RequestError(str(error)) from error
    if spec.tokenizer != COUNTER:
        raise RequestError(
            f"spec.tokenizer: expected {COUNTER!r}, which needs no file, got {spec.tokenizer!r}"
        )
    masked = None if spec.advantages is None else spec.advantages.mismatch
    for where, named in (("mrs", spec.mrs), ("advantages.mismatch", masked)):
        if named is not None:
            raise RequestError(
                f"spec.{where}: expected none, which needs no file, got {named.file!r}"
            )
    for name in spec.held_out:
        if not _SOURCE_SET.search(name):
            raise RequestError(f"spec.held_out: expected names of source sets, got {name!r}")
    return spec


def _job(export_job_id: UUID) -> ExportJob:
    return background.progress(
        request_context.database(), export_job_id
    ) or request_context.missing("export", export_job_id)


def _described(job: ExportJob) -> dict[str, Any]:
    made = _made(job)
    own = {"files", "stale_at", "stale_reason"}
    shown = {name: getattr(job, name) for name in ExportAnswer.__struct_fields__ if name not in own}
    stale = {
        name: None if made is None else getattr(made, name) for name in ("stale_at", "stale_reason")
    }
    return {**shown, **stale, "files": _files(made)}


def _made(job: ExportJob) -> exports.Export | None:
    if job.export_id is None:
        return None
    with request_context.database().snapshot() as connection:
        return exports.get(connection, job.export_id)


def _files(made: exports.Export | None) -> list[str]:
    return [] if made is None else [NAME, *(entry["path"] for entry in made.manifest["files"])]
