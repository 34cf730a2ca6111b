"""BROWSE: tasks of the KernelGYM protocol: submit and wait, read, cancel."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from uuid import UUID

import flask
from werkzeug.exceptions import BadRequest, NotFound
from werkzeug.wrappers import Response

from app import enqueue
from app.domain import reward_request
from app.domain.job import TERMINAL, JobState
from app.domain.request import Request
from app.domain.rollout import Rollout
from app.enqueue import Receipt
from app.store.queue import devices, jobs, kernelgym
from app.store.queue.kernelgym import Task
from app.web import request_context
from app.web.api import backpressure, evaluations
from app.web.body_limits import large
from app.web.compat import device_choice
from app.web.compat.kernelgym import errors, requests, responses
from app.web.compat.kernelgym.requests import EvaluationRequest
from app.web.identity import current_user, requires
from app.web.job_waiter import StoppingError
from app.web.query_parameters import reads

blueprint = flask.Blueprint("tasks", __name__)

HOLD_S = 600.0
"""Seconds for which a request is held open by default.  A client that still waits then gets
`processing`, and the result from /results, which the published client polls anyway.
"""
LONGEST_HOLD_S = 3600.0
"""Longest time in seconds for which an answer is waited for in one request."""
ARGUMENTS = ("wait", *reward_request.PLACE)
"""Query parameters of a URL that takes tasks."""
GONE = frozenset({JobState.FAILED, JobState.CANCELLED})
"""Posting a task in one of these states again evaluates it again."""


@blueprint.post("/evaluate")
@requires("submit")
@large
@reads(*ARGUMENTS)
def evaluate() -> Response:
    """Evaluate one candidate and return the result when it exists.  `?wait=SECONDS` waits
    for a shorter time, 0 not at all.
    """
    return _evaluate_one(
        requests.read(flask.request.get_data(), EvaluationRequest), responses.evaluation
    )


@blueprint.post("/evaluate/batch")
@requires("submit")
@large
@reads(*ARGUMENTS)
def evaluate_batch() -> Response:
    """Evaluate up to a hundred candidates in parallel; results are in the order of the tasks."""
    batch = requests.read(flask.request.get_data(), requests.Batch)
    submitted_at = responses.timestamp()
    hold_s = _hold_s()
    tasks = _submit(batch.tasks)
    found = _wait(tasks, hold_s)
    for task, result in zip(tasks, found, strict=True):
        if (
            result["state"] == JobState.FAILED
        ):  # posting the batch again evaluates it again, and only it
            return errors.infrastructure(task.task_id, result)
    evaluations = [
        responses.evaluation(task.task_id, task.asked, result)
        for task, result in zip(tasks, found, strict=True)
    ]
    return flask.jsonify(responses.batch(batch.batch_id, submitted_at, evaluations))


@blueprint.post("/workflow/submit")
@requires("submit")
@large
@reads(*ARGUMENTS)
def submit_workflow() -> Response:
    """The same as `/evaluate`, with the fields in a payload."""
    body = requests.read(flask.request.get_data(), requests.WorkflowSubmission)
    task_id = body.task_id or body.payload.get("task_id")
    if not task_id:
        raise BadRequest("task_id is required")
    given = {"resources": body.resources} if body.resources else {}
    fields = {**body.payload, **given, "task_id": task_id, "workflow": body.workflow}
    if body.force_refresh:
        fields["force_refresh"] = True
    return _evaluate_one(requests.convert(fields, EvaluationRequest), responses.workflow)


@blueprint.get("/workflow/results/<given:task_id>")
@requires("read")
def workflow_result(task_id: str) -> Response:
    """Outcome of a task."""
    return _stored_result(task_id, responses.workflow)


@blueprint.get("/status/<given:task_id>")
@requires("read")
def status(task_id: str) -> Response:
    """State of a task: whether it is over, and its error."""
    return flask.jsonify(responses.progress(task_id, _result(_task(task_id))))


@blueprint.get("/results/<given:task_id>")
@requires("read")
def result(task_id: str) -> Response:
    """Outcome of a task, in full."""
    return _stored_result(task_id, responses.evaluation)


@blueprint.delete("/tasks/<given:task_id>")
@requires("submit")
def cancel(task_id: str) -> Response:
    """Cancel a task, even while it runs.  A job that was submitted otherwise as well continues,
    also where this request is sent again.
    """
    task = _task(task_id)
    with request_context.database().begin() as connection:
        state = kernelgym.withdraw(connection, task)
    if state in TERMINAL - {JobState.CANCELLED}:
        raise NotFound(f"Task {task_id} not found or cannot be cancelled")
    return flask.jsonify(message=f"Task {task_id} cancelled successfully")


def _stored_result(task_id: str, answer: Callable[..., object]) -> Response:
    """Outcome of a task as it is now, in the form of `answer`."""
    task = _task(task_id)
    return flask.jsonify(answer(task.task_id, task.asked, _result(task)))


def _evaluate_one(wanted: EvaluationRequest, answer: Callable[..., object]) -> Response:
    """Evaluate one task, wait for its result, and answer in the form of `answer`."""
    hold_s = _hold_s()
    (task,) = _submit([wanted])
    (result,) = _wait([task], hold_s)
    if result["state"] == JobState.FAILED:
        return errors.infrastructure(task.task_id, result)
    return flask.jsonify(answer(task.task_id, task.asked, result))


def _submit(wanted: Sequence[EvaluationRequest]) -> list[Task]:
    """The tasks in the order of the requests.

    A task name that the user has used already is not evaluated again, whatever the request says,
    unless it was cancelled, its job failed by Assay's fault, or `force_refresh` is set.
    """
    names, owner = [each.task_id for each in wanted], _owner()
    with request_context.database().read() as connection:
        known = kernelgym.get(connection, owner, names)
        states = jobs.states(connection, [task.job_id for task in known.values()]) if known else {}
        listed = devices.listed(connection)
    new = [each for each in wanted if _is_new(each, known, states)]
    if new:
        planned = [
            each.request(*device_choice.choose(listed, each.device_preference)) for each in new
        ]
        for device_class in {request.device_class for request in planned}:
            backpressure.check(device_class)
        rollouts = _rollouts(new, planned)
        planned, within = enqueue.stored_with(request_context.database(), rollouts, planned)
        tasks_of = partial(_tasks, owner, new)
        receipts = request_context.submit_batcher().accept(
            planned, tasks=tasks_of, runs=[each.run for each in rollouts], within=within
        )
        known |= {task.task_id: task for task in tasks_of(receipts)}
    return [known[name] for name in names]


def _rollouts(wanted: Sequence[EvaluationRequest], planned: Sequence[Request]) -> list[Rollout]:
    """The rollout that belongs to each request.

    `?run=`, `?model=` and `?step=` of the URL place it in a training run."""
    place = reward_request.place(
        {name: request_context.argument(name) or None for name in reward_request.PLACE}, "query"
    )
    run = place.campaign("kernelgym")
    return [each.rollout(request, run) for each, request in zip(wanted, planned, strict=True)]


def _tasks(
    owner: str, wanted: Sequence[EvaluationRequest], receipts: Sequence[Receipt]
) -> list[Task]:
    return [
        Task(
            owner=owner,
            task_id=each.task_id,
            job_id=receipt.job_id,
            workflow=each.served,
            asked=each.asked,
        )
        for each, receipt in zip(wanted, receipts, strict=True)
    ]


def _owner() -> str:
    """Owner of the task names: the user, so that two users may use the same names."""
    return str(current_user().user_id or "")


def _is_new(
    wanted: EvaluationRequest, known: dict[str, Task], states: dict[UUID, JobState]
) -> bool:
    task = known.get(wanted.task_id)
    if task is None or task.withdrawn or states[task.job_id] in GONE:
        return True
    return wanted.force_refresh and states[task.job_id] in TERMINAL


def _hold_s() -> float:
    """Seconds for which to hold this request."""
    text = flask.request.args.get("wait", str(HOLD_S))
    try:
        hold_s = float(text)
    except ValueError:
        hold_s = -1.0
    if not 0 <= hold_s <= LONGEST_HOLD_S:
        raise BadRequest(f"wait: expected 0 to {LONGEST_HOLD_S:g} seconds, got {text!r}")
    return hold_s


def _wait(tasks: Sequence[Task], hold_s: float) -> Sequence[responses.Result]:
    """Results once all tasks are over, the time is up, or this server stops.  The published client
    polls tasks in `processing` until a server answers again.
    """
    until = time.monotonic() + hold_s
    with suppress(StoppingError):
        for task in tasks:
            request_context.watch().over(task.job_id, until - time.monotonic())
    return [_result(task) for task in tasks]


def _task(task_id: str) -> Task:
    """The task with that name, or the one that this half of it belongs to."""
    names = [task_id, task_id.removesuffix("_kernel"), task_id.removesuffix("_ref")]
    with request_context.database().begin() as connection:
        found = kernelgym.get(connection, _owner(), names) if "\0" not in task_id else {}
    for name in names:
        if name in found:
            return found[name]
    raise NotFound(f"Task {task_id} not found")


def _result(task: Task) -> responses.Result:
    return evaluations.result_of(task.job_id)
