"""BROWSE: the list of jobs, one job (the page that every result's `url` points to),
and the form that submits one.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import flask
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Response

from app import enqueue, routing
from app.domain import worked_example
from app.domain.job import TERMINAL, JobState
from app.domain.request import RequestError
from app.domain.user import Scope
from app.store.browse import job as job_page
from app.store.browse import jobs as job_list
from app.store.browse import paging, problems, runs
from app.store.postgres.database import Connection
from app.store.queue import devices, jobs
from app.store.user import audit
from app.web import (
    body_limits,
    live_updates,
    request_context,
    resubmission,
    source_view,
    submission_form,
)
from app.web.api import evaluations as api
from app.web.identity import current_user, requires
from app.web.pages import saved_views
from app.web.query_parameters import reads
from app.web.table_view import Column, Listing, View

blueprint = flask.Blueprint("jobs", __name__)

LISTING = Listing(
    endpoint="jobs.index",
    table="jobs.table",
    key="job_id",
    filters=("state", "gpu", "run", "error"),
    columns=(
        Column(name="job", heading="Job", is_head=True),
        Column(name="state", heading="State"),
        Column(name="problem", heading="Problem", is_long=True),
        Column(name="run", heading="Run", is_long=True),
        Column(name="class", heading="Class"),
        Column(name="priority", heading="Priority", is_usual=False),
        Column(name="attempt", heading="Attempts", is_number=True),
        Column(name="worker", heading="Worker", is_long=True),
        Column(name="result", heading="Result", is_long=True),
        Column(name="took", heading="Took", is_number=True, is_usual=False),
        Column(name="created_at", heading="Created", sorts=True, is_number=True),
        Column(name="actions", heading=""),
    ),
)
FOUND = 12
"""Stored problems that the form lists for a search."""
RUNS = 50
"""Latest runs that complete the name of one."""


@blueprint.get("/jobs")
@requires("read")
@LISTING.reads()
def index() -> str:
    """Jobs, newest first."""
    view = _view()
    with request_context.database().snapshot() as connection:
        kinds = job_list.error_kinds(connection)
        names = [run.name for run in runs.page(connection, paging.Window(limit=RUNS)).rows]
        saved = saved_views.of(connection, LISTING.endpoint)
    return flask.render_template(
        "jobs.html",
        view=view,
        saved=saved,
        states=list(JobState),
        classes=routing.DEVICE_CLASSES,
        kinds=kinds,
        runs=names,
        **_list.shown(),
        live_url=flask.url_for("jobs.live_list", **flask.request.args.to_dict(flat=False)),  # type: ignore[arg-type]
    )


@blueprint.get("/jobs.<any(json,csv):kind>")
@requires("read")
@LISTING.reads()
def table(kind: str) -> flask.Response:
    """The list as data."""
    view = _view()
    with request_context.database().snapshot() as connection:
        return view.data(kind, "jobs", job_list.page(connection, _filter(view), view.window))


@blueprint.get("/jobs/new")
@requires(Scope.SUBMIT)
@reads("problem_id", "find", "candidate_of", "run", "example")
def new() -> str:
    """The form; `problem_id` picks a stored problem, `find` searches for one, `candidate_of` starts
    from a job, `example` fills in one of `app.domain.worked_example`.
    """
    sent = {"run": request_context.argument("run")} | _example()
    copied = request_context.id_argument("candidate_of")
    picked = request_context.id_argument("problem_id")
    if copied is not None:
        found = _read(copied)
        picked = found.problem_id
        sent |= {
            "candidate": source_view.shown(found.candidate),
            "backend": found.backend,
            "gpu": found.device_class,
        }
        sent["run"] = found.run or ""
    if picked is not None:
        sent["problem_id"] = str(picked)
    return _form({name: value for name, value in sent.items() if value}, {})


def _example() -> dict[str, str]:
    name = request_context.choice_argument("example", worked_example.CANDIDATES)
    if not name:
        return {}
    return {
        "problem_name": worked_example.PROBLEM,
        "reference": worked_example.REFERENCE,
        "candidate": worked_example.CANDIDATES[name],
        "backend": "triton",
    }


@blueprint.post("/jobs/new")
@requires(Scope.SUBMIT)
@body_limits.large
def submit() -> Response | tuple[str, int]:
    """Submit the form, and lead to the job's page; with errors the form again, as it
    was filled in.
    """
    files = [(name, file.read()) for name, file in flask.request.files.items()]
    sent = submission_form.chosen(flask.request.form.to_dict(), files)
    try:
        body = submission_form.body(sent)
        [receipt], _ = api.accept([api.as_request(body)])
    except submission_form.FormError as error:
        return _form(sent, error.errors), 400
    except RequestError as error:
        return _form(sent, submission_form.located(str(error))), 400
    _note("job.submit", receipt.job_id, {"known": receipt.known})
    return flask.redirect(
        flask.url_for("jobs.page", job_id=receipt.job_id, done="known" if receipt.known else "sent")
    )


@blueprint.get("/jobs/<uuid:job_id>")
@requires("read")
@reads("done")
def page(job_id: UUID) -> str:
    """State, attempts, result and, for a failed job, the error."""
    found = _read(job_id)
    return flask.render_template(
        "job.html",
        job=found,
        candidate=source_view.listing(found.candidate),
        **_body.shown(job_id),
        notice=NOTICES.get(request_context.argument("done")),
    )


NOTICES = {
    "sent": "Submitted.",
    "known": (
        "The same submission exists already: this is its job. Tick “Evaluate again” to run it anew."
    ),
    "cancelled": "Cancelled.",
    "stopping": "Cancellation requested: the worker stops it within seconds.",
    "queued": "Queued again.",
    "over": "The job has ended already; nothing was cancelled.",
}


@blueprint.get("/jobs/<uuid:job_id>/candidate.py")
@requires("read")
def candidate(job_id: UUID) -> flask.Response:
    """The candidate exactly as it was submitted."""
    return request_context.attachment(_read(job_id).candidate, f"candidate-{job_id}.py")


@blueprint.post("/jobs/<uuid:job_id>/cancel")
@requires(Scope.SUBMIT)
def cancel(job_id: UUID) -> Response:
    """Cancel a job: at once while it waits, within seconds while it runs."""
    with request_context.database().begin() as connection:
        before = jobs.states(connection, [job_id]).get(job_id) or request_context.missing(
            "job", job_id
        )
        if before in TERMINAL:
            return _to(job_id, "over")
        after = jobs.cancel(connection, job_id)
        audit.record(
            connection, current_user(), "job.cancel", f"job {job_id}", {"state": str(before)}
        )
    return _to(job_id, "cancelled" if after is JobState.CANCELLED else "stopping")


@blueprint.post("/jobs/<uuid:job_id>/again")
@requires(Scope.SUBMIT)
def again(job_id: UUID) -> Response:
    """Run a job again: a failed or cancelled one as it is, a finished one as another
    job with new seeds.
    """
    found = _read(job_id)
    if found.state in (JobState.FAILED, JobState.CANCELLED):
        enqueue.retry(request_context.database(), request_context.broker(), job_id)
        _note("job.retry", job_id, {"state": found.state})
        return _to(job_id, "queued")
    if found.state != JobState.FINISHED:
        raise BadRequest(f"Expected a job that has ended, got one that is {found.state}.")
    new_id = request_context.submit_batcher().accept([resubmission.request_of(found)])[0].job_id
    _note("job.again", job_id, {"job_id": str(new_id)})
    return _to(new_id, "sent")


def _to(job_id: UUID, done: str) -> Response:
    return flask.redirect(flask.url_for("jobs.page", job_id=job_id, done=done))


def _note(action: str, job_id: UUID, details: dict[str, Any]) -> None:
    with request_context.database().begin() as connection:
        audit.record(connection, current_user(), action, f"job {job_id}", details)


def _read(job_id: UUID) -> job_page.JobPage:
    return request_context.found("job", job_id, job_page.read)


@live_updates.live_part(blueprint, "/jobs/<uuid:job_id>/live", "jobs", "evaluations")
def _body(job_id: UUID) -> str:
    found = _read(job_id)
    return flask.render_template("_job.html", job=found, is_over=found.state in TERMINAL)


def _view() -> View:
    request_context.choice_argument("state", JobState)
    return LISTING.view()


def _filter(view: View) -> job_list.Filter:
    asked = view.asked
    return job_list.Filter(
        state=asked["state"], device_class=asked["gpu"], run=asked["run"], error_kind=asked["error"]
    )


@live_updates.live_part(blueprint, "/jobs/live", "jobs", "evaluations", endpoint="live_list")
@LISTING.reads()
def _list() -> str:
    view = _view()
    with request_context.database().snapshot() as connection:
        found = job_list.page(connection, _filter(view), view.window)
        counts = job_list.open_counts(connection)
        total = job_list.total(connection, _filter(view))
    return flask.render_template(
        "_jobs.html",
        view=view,
        rows=found.rows,
        total=total,
        counts=counts,
        may_submit=current_user().may(Scope.SUBMIT),
        **view.pages(found),
    )


def _form(sent: dict[str, str], errors: dict[str, str]) -> str:
    with request_context.database().snapshot() as connection:
        online = [
            each.device_class for each in devices.listed(connection) if each.state == "online"
        ]
        names = [run.name for run in runs.page(connection, paging.Window(limit=RUNS)).rows]
        find = request_context.argument("find")
        some = paging.Window[UUID](limit=FOUND)
        found = problems.page(connection, some, name=find).rows if find else ()
        picked = _picked(connection, sent.get("problem_id", ""))
    classes = list(dict.fromkeys(online))
    return flask.render_template(
        "new_job.html",
        head=submission_form.HEAD,
        options=submission_form.OPTIONS,
        values=submission_form.defaults(classes) | sent,
        errors=errors,
        classes=[*classes, *(name for name in routing.DEVICE_CLASSES if name not in classes)],
        online=classes,
        runs=names,
        find=find,
        found=found,
        picked=picked,
        examples=list(worked_example.CANDIDATES),
    )


def _picked(connection: Connection, problem_id: str) -> problems.Problem | None:
    try:
        return problems.read(connection, UUID(problem_id)) if problem_id else None
    except ValueError:
        return None
