"""BROWSE: `/v1/reward`: submit, wait, score, in one request.

Outcomes that a trainer must tell apart have a status each: 200 with a number; 200 with
null, where the problem itself is broken; 503 for a fault of Assay's; 504 if it takes
longer.  None of them is a zero.
"""

from __future__ import annotations

import re
import time
from uuid import UUID

import flask

from app.domain import reward
from app.domain.job import JobState
from app.domain.result import Result
from app.domain.user import Scope
from app.web import errors, request_context
from app.web.api import evaluations
from app.web.api.endpoint import answer, operation, refuse
from app.web.api.schemas import LONGEST_WAIT_S, RewardAnswer, RewardBody

_RETRY_S = 5
"""Seconds after which a client is told to ask again."""


@operation(
    "POST",
    "/reward",
    Scope.SUBMIT,
    body=RewardBody,
    answers={200: RewardAnswer},
    refusals=(404, 409, 413, 429, 503, 504),
    headers={evaluations.KEY_HEADER: evaluations.KEY_CHARACTERS},
    large=True,
)
def score(body: RewardBody) -> flask.Response:
    """The reward of a candidate, once it is evaluated.

    504 after `deadline_s`: the job goes on, and the same request, or `resume` of the
    error, finds it again.
    """
    chosen = body.reward or request_context.settings().reward
    try:
        reward.parse(chosen)
    except ValueError as error:
        refuse(400, "bad_request", f"reward: {error}")
    if not re.search(reward.PATTERN, chosen):
        refuse(400, "bad_request", f"reward: expected NAME or NAME:OPTION=NUMBER,…, got {chosen!r}")
    [receipt], _ = evaluations.accept([evaluations.as_request(body, evaluations.own_key(body))])
    _wait(receipt.job_id, body.deadline_s)
    result = evaluations.result_of(receipt.job_id)
    _refuse_unfinished(receipt.job_id, result, body.deadline_s)
    return answer(
        {"job_id": receipt.job_id, "reward": reward.score(chosen, result), "result": result}
    )


def _wait(job_id: UUID, deadline_s: float) -> None:
    until = time.monotonic() + deadline_s
    watch = request_context.watch()
    while not watch.over(job_id, min(LONGEST_WAIT_S, until - time.monotonic())):
        if time.monotonic() >= until:
            return


def _refuse_unfinished(job_id: UUID, result: Result, deadline_s: float) -> None:
    resume = flask.url_for("api.evaluations_read", job_id=job_id, wait=25)
    state = result["state"]
    if state == JobState.FAILED:
        message = (
            "an infrastructure fault ended the job, and its candidate was not judged:"
            f" {errors.said(result['error'])}"
        )
        refuse(
            503,
            "infrastructure",
            message,
            retry_after_s=_RETRY_S,
            job_id=str(job_id),
            resume=resume,
        )
    if state == JobState.CANCELLED:
        refuse(
            409,
            "cancelled",
            "expected a result, but the job was cancelled",
            job_id=str(job_id),
            resume=resume,
        )
    if state != JobState.FINISHED:
        message = (
            f"expected a result within {deadline_s:g} s, and the job is still {state}: it goes on"
        )
        refuse(504, "deadline", message, job_id=str(job_id), resume=resume)
