"""BROWSE: `/v1/evaluations`: submit, look, wait, cancel."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any
from uuid import UUID

import flask
import msgspec
from msgspec import Meta, Struct

from app import enqueue
from app.domain import result as results
from app.domain.job import TERMINAL, JobState
from app.domain.problem import CASES_FUNCTION, CASES_WORKFLOW, Problem
from app.domain.request import ConflictError, MissingError, Request, RequestError
from app.domain.user import Scope
from app.enqueue import Receipt
from app.store.evaluation import evaluations
from app.store.queue import idempotency, jobs, queue_depth, withdrawals
from app.store.trajectory import problems
from app.web import request_context
from app.web.api import backpressure, schemas
from app.web.api.endpoint import answer, decoded, operation, refuse
from app.web.api.schemas import (
    Accepted,
    BatchAnswer,
    BatchBody,
    EvaluationBody,
    HowBody,
    JobsBody,
    OverAnswer,
    ResultsAnswer,
    WaitBody,
    WithdrawnAnswer,
)
from app.web.identity import current_user

KEY_HEADER = "Idempotency-Key"
KEY_CHARACTERS = 200
"""Longest idempotency key."""
TOGETHER_S = 0.02
"""Jobs that end within this time of each other are told together."""


class WaitQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    """Seconds to hold the request."""

    wait: Annotated[float, Meta(ge=0, le=schemas.LONGEST_WAIT_S)] = 0.0
    """Seconds, at most 60: until the job is over, or this long."""


class CancelQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    """Submissions to withdraw."""

    for_all: bool = False
    """Every submission of the same content, not one."""


@operation(
    "POST",
    "/evaluations",
    Scope.SUBMIT,
    body=EvaluationBody,
    answers={202: Accepted, 200: Accepted},
    refusals=(404, 409, 413, 429),
    large=True,
    headers={KEY_HEADER: KEY_CHARACTERS},
)
def submit(body: EvaluationBody) -> flask.Response:
    """Have a candidate evaluated: 202, or 200 where the same submission, or the same
    idempotency key, is known.
    """
    key = own_key(body)
    [receipt], [request] = accept([as_request(body, key)])
    told = described(receipt, request)
    return answer(told, 200 if receipt.known else 202, Location=told["url"])


@operation(
    "POST",
    "/evaluations:batch",
    Scope.SUBMIT,
    body=BatchBody,
    answers={202: BatchAnswer},
    refusals=(413, 429),
    large=True,
    headers={KEY_HEADER: KEY_CHARACTERS},
)
def submit_batch(body: BatchBody) -> flask.Response:
    """Have up to 1,000 candidates evaluated.  Each item is an EvaluationBody and
    gets its own answer, in order.

    With an Idempotency-Key the same batch, sent again after a lost answer, counts its submissions
    once.
    """
    batch_key = flask.request.headers.get(KEY_HEADER)
    requests: dict[int, Request] = {}
    items: list[dict[str, Any]] = [
        {"index": index, "accepted": None, "error": None} for index in range(len(body.items))
    ]
    for index, item in enumerate(body.items):
        try:
            request = as_request(one := decoded(item, EvaluationBody), one.idempotency_key)
            if batch_key:
                request = replace(request, sent_as=_own_key(f"batch {batch_key} {index}"))
            enqueue.check(request_context.database(), [request])
            requests[index] = request
        except RequestError as error:
            items[index]["error"] = {"kind": "bad_request", "message": str(error), "details": {}}
    conflicts = idempotency_conflicts(list(requests.values()))
    for index in [
        index for index, request in requests.items() if request.idempotency_key in conflicts
    ]:
        message = (
            "idempotency_key: expected the submission that it was first used for, got another one"
        )
        items[index]["error"] = {"kind": "conflict", "message": message, "details": {}}
        del requests[index]
    if requests:
        receipts, _ = accept(list(requests.values()), keys_checked=True)
        for (index, request), receipt in zip(requests.items(), receipts, strict=True):
            items[index]["accepted"] = described(receipt, request)
    counts = {"accepted": len(requests), "refused": len(items) - len(requests)}
    return answer({**counts, "items": items}, 202)


@operation(
    "GET",
    "/evaluations/<uuid:job_id>",
    Scope.READ,
    query=WaitQuery,
    answers={200: results.Result},
    refusals=(404,),
)
def read(job_id: UUID, query: WaitQuery) -> flask.Response:
    """The result as it is; with `wait` as it is when the job is over, or after that
    many seconds.
    """
    if query.wait:
        request_context.watch().over(job_id, query.wait)
    return answer(result_of(job_id))


@operation(
    "POST",
    "/evaluations:wait",
    Scope.READ,
    body=WaitBody,
    answers={200: OverAnswer},
    refusals=(404,),
)
def wait_many(body: WaitBody) -> flask.Response:
    """Which of up to 1,000 jobs are over: at once where any is, else when the first
    one is, or after `wait` seconds.
    """
    with request_context.watch().ends(body.job_ids) as ended:
        over = _over(body.job_ids)
        if not over and body.wait:
            if ended.next(body.wait) is not None:
                time.sleep(TOGETHER_S)
            over = _over(body.job_ids)
    states = [{"job_id": job_id, "state": state} for job_id, state in over.items()]
    return answer({"over": states, "unserved": {} if over else _unserved(body.job_ids)})


@operation(
    "POST",
    "/evaluations:results",
    Scope.READ,
    body=JobsBody,
    answers={200: ResultsAnswer},
    refusals=(404,),
)
def read_many(body: JobsBody) -> flask.Response:
    """The results of up to 100 jobs as they are, in the order in which they are asked for."""
    found = results_of(body.job_ids)
    return answer({"results": [found[job_id] for job_id in body.job_ids]})


@operation(
    "DELETE",
    "/evaluations/<uuid:job_id>",
    Scope.SUBMIT,
    query=CancelQuery,
    headers={KEY_HEADER: KEY_CHARACTERS},
    answers={200: WithdrawnAnswer, 202: WithdrawnAnswer},
    refusals=(404,),
)
def cancel(job_id: UUID, query: CancelQuery) -> flask.Response:
    """Cancel: at once where it waits, within seconds (202) where it runs; a finished
    job stays as it is.

    A job that was submitted several times goes on until the last submission is
    withdrawn: `others` counts those left.  With an Idempotency-Key the same request, sent again
    after a lost answer, withdraws one submission.
    """
    given = flask.request.headers.get(KEY_HEADER)
    key = _own_key(f"cancel {job_id} {given}") if given else None
    with request_context.database().begin() as connection:
        if key is None:
            found = jobs.withdraw(connection, job_id, for_all=query.for_all)
        else:
            found = withdrawals.once(connection, job_id, key, for_all=query.for_all)
    if found is None:
        request_context.missing("job", job_id)
    stops = found.state is JobState.RUNNING and not found.others
    return answer(
        {"job_id": job_id, "state": found.state, "others": found.others}, 202 if stops else 200
    )


def own_key(body: EvaluationBody) -> str | None:
    """The submitter's own key, of the header or the body.  Raises RequestError."""
    key = flask.request.headers.get(KEY_HEADER) or body.idempotency_key
    if len(key or "") > KEY_CHARACTERS:
        raise RequestError(
            f"{KEY_HEADER}: expected at most {KEY_CHARACTERS} characters, got {len(key or '')}"
        )
    return key


def as_request(body: EvaluationBody, key: str | None = None) -> Request:
    """The body for the service.  Raises RequestError."""
    return how_request(
        body,
        candidate=schemas.as_bytes(body.candidate, "candidate"),
        fresh=body.fresh,
        idempotency_key=_own_key(key) if key else "",
    )


def how_request(body: HowBody, **more: Any) -> Request:
    """The request that `body` states: problem and device."""
    given = [
        name for name in ("reference", "problem", "problem_id") if getattr(body, name) is not None
    ]
    if len(given) != 1:
        raise RequestError(
            "expected one of reference, problem and problem_id, got"
            f" {' and '.join(given) or 'none'}"
        )
    if body.problem_id is not None:
        with request_context.database().begin() as connection:
            problem = problems.get(connection, body.problem_id)
        if problem is None:
            raise MissingError(f"problem_id: expected one that is stored, got {body.problem_id}")
        check_cases(problem, body.workflow)
    else:
        assert body.problem is not None or body.reference is not None
        problem = schemas.problem(
            body.problem or schemas.ProblemBody(reference=body.reference or "")
        )
    return Request(
        problem=problem,
        backend=body.backend,
        device_class=body.gpu,
        device=body.device,
        priority=body.priority,
        run=body.run,
        workflow=body.workflow,
        options=schemas.options(body.options),
        **more,
    )


def check_cases(problem: Problem, workflow: str) -> None:
    """Raise ConflictError where a stored problem has no cases and the workflow wants some."""
    if workflow == CASES_WORKFLOW and CASES_FUNCTION not in problem.reference:
        raise ConflictError(
            f"workflow: {workflow!r} expects a problem that defines get_cases(), got"
            f" {problem.name!r}"
        )


def accept(
    requests: Sequence[Request], *, keys_checked: bool = False
) -> tuple[Sequence[Receipt], Sequence[Request]]:
    """Receipts, and the requests again.  Ends the request with 429 where too much waits, 409 where
    a key is used for something else.
    """
    enqueue.check(request_context.database(), requests)
    for device_class in {request.device_class for request in requests}:
        backpressure.check(device_class)
    if not keys_checked and idempotency_conflicts(requests):
        refuse(
            409,
            "conflict",
            f"{KEY_HEADER}: expected the submission that it was first used for, got another one",
        )
    return request_context.submit_batcher().accept(requests), requests


def idempotency_conflicts(requests: Sequence[Request]) -> set[str]:
    """Keys that were used for something else before, or twice here."""
    used: dict[str, str] = {}
    twice: set[str] = set()
    for request in requests:
        if key := request.idempotency_key:
            fingerprint = _fingerprint(request)
            if used.setdefault(key, fingerprint) != fingerprint:
                twice.add(key)
    if not used:
        return twice
    with request_context.database().begin() as connection:
        return twice | idempotency.conflicts(connection, used)


def described(receipt: Receipt, request: Request) -> dict[str, Any]:
    """Answer to a submitter."""
    url = flask.url_for("api.evaluations_read", job_id=receipt.job_id)
    told: dict[str, Any] = {"job_id": receipt.job_id, "state": "queued", "known": receipt.known}
    if receipt.known:
        with request_context.database().read() as connection:
            told["state"] = jobs.states(connection, [receipt.job_id])[receipt.job_id]
    place = (
        backpressure.place(request)
        if told["state"] == "queued"
        else {"position": None, "eta_s": None, "served": None}
    )
    return {**told, **place, "url": url}


def result_of(job_id: UUID) -> results.Result:
    """The result of a job; 404 where there is none."""
    return results_of([job_id])[job_id]


def results_of(job_ids: Sequence[UUID]) -> dict[UUID, results.Result]:
    """The results of jobs; 404 where one is not there."""
    settings = request_context.settings()
    with request_context.database().read() as connection:
        records = evaluations.job_records(connection, job_ids)
    found = {}
    for job_id in job_ids:
        record = records.get(job_id) or request_context.missing("job", job_id)
        path = f"/evaluations/{record.evaluation_id}" if record.evaluation_id else None
        found[job_id] = record.result(
            settings.web_url.rstrip("/") + path if path else None, settings.reward
        )
    return found


def _over(job_ids: Sequence[UUID]) -> dict[UUID, JobState]:
    with request_context.database().read() as connection:
        states = jobs.states(connection, job_ids)
    for job_id in job_ids:
        if job_id not in states:
            request_context.missing("job", job_id)
    return {job_id: state for job_id, state in states.items() if state in TERMINAL}


def _unserved(job_ids: Sequence[UUID]) -> dict[str, int]:
    with request_context.database().read() as connection:
        return queue_depth.unserved(connection, job_ids)


def _own_key(key: str) -> str:
    """Two users may use the same key for different things."""
    return hashlib.sha256(
        f"{current_user().user_id}:{key}".encode("utf-8", "surrogatepass")
    ).hexdigest()


def _fingerprint(request: Request) -> str:
    """Content that the key stands for: candidate, problem, options and device.  Fields added
    later count only with a value other than their default, so that a key used before an
    upgrade stands for the same after it.
    """
    options = msgspec.to_builtins(request.options)
    for name in schemas.SET_BY_WORKFLOWS:
        del options[name]
    usual = {"workflow": schemas.WORKFLOW, "cases": False, "entry_point": "Model"}
    later = {
        "workflow": request.workflow,
        "cases": options.pop("cases"),
        "entry_point": request.problem.entry_point,
    }
    parts = [
        request.problem.reference_sha256,
        request.problem.name,
        hashlib.sha256(request.candidate or b"").hexdigest(),
        request.backend,
        request.device_class,
        request.device,
        options,
        *([] if later == usual else [later]),
    ]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
