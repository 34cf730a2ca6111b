"""BROWSE: `/v1/rollouts:batch`: answers that a trainer has scored, stored with their prompts."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import flask
import msgspec
from msgspec import Meta, Struct

from app import enqueue
from app.domain import freeform
from app.domain.request import ConflictError, RequestError
from app.domain.rollout import Rollout
from app.domain.trajectory import Message
from app.domain.user import Scope
from app.web import request_context
from app.web.api import backpressure, schemas
from app.web.api.endpoint import answer, operation
from app.web.api.runs import RunBody, run_of
from app.web.api.schemas import HowBody, Source, Text
from app.web.api.trajectories import MessageBody


class RolloutBody(HowBody, forbid_unknown_fields=True, kw_only=True):
    """One answer.  `problem_id` counts where that problem is stored and has the
    reference of `problem`.
    """

    candidate: Source
    response: str
    """The answer as it came."""
    campaign: RunBody
    """The run: of a training, one for every step."""
    messages: Annotated[list[MessageBody], Meta(max_length=1_000)] = msgspec.field(
        default_factory=list
    )
    """The prompt."""
    label: Text | None = None
    claims: dict[str, Any] = msgspec.field(default_factory=dict)
    """Everything else that the trainer says of it."""
    repeatable: bool = False
    """The sender may send it again: the same answer of the same run and label is stored once."""


class RolloutsBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """Answers of a batch; all are stored, or none."""

    items: Annotated[list[RolloutBody], Meta(min_length=1, max_length=schemas.MOST_ITEMS)]


class RolloutsAnswer(Struct, kw_only=True):
    """The job of each answer, in order."""

    job_ids: list[UUID]


@operation(
    "POST",
    "/rollouts:batch",
    Scope.SUBMIT,
    body=RolloutsBody,
    answers={202: RolloutsAnswer},
    refusals=(404, 409, 413, 429),
    large=True,
)
def submit(body: RolloutsBody) -> flask.Response:
    """Store answers with their prompts, and have each evaluated."""
    return answer({"job_ids": accept([_rollout(each) for each in body.items])}, 202)


def accept(rollouts: list[Rollout]) -> list[UUID]:
    """Jobs of the rollouts, in order.  Ends the request with 429 where too much waits."""
    for device_class in {rollout.device_class for rollout in rollouts}:
        backpressure.check(device_class)
    return enqueue.enqueue_rollouts(request_context.database(), request_context.broker(), rollouts)


def _rollout(body: RolloutBody) -> Rollout:
    if body.workflow != schemas.WORKFLOW:
        raise RequestError(f"workflow: expected {schemas.WORKFLOW!r}, got {body.workflow!r}")
    if body.run not in (None, body.campaign.name):
        raise ConflictError(
            f"run: expected {body.campaign.name!r}, the campaign's name, got {body.run!r}"
        )
    freeform.check(body.claims, "claims")
    problem = body.problem or (
        schemas.ProblemBody(reference=body.reference) if body.reference is not None else None
    )
    return Rollout(
        answer=body.response,
        candidate=schemas.as_bytes(body.candidate, "candidate"),
        run=run_of(body.campaign),
        problem_id=body.problem_id,
        problem=None if problem is None else schemas.problem(problem),
        messages=tuple(Message(role=each.role, content=each.content) for each in body.messages),
        backend=body.backend,
        device_class=body.gpu,
        device=body.device,
        label=body.label,
        claims=body.claims,
        options=schemas.options(body.options),
        priority=body.priority,
        repeatable=body.repeatable,
    )
