"""BROWSE: `/v1/trajectories`: a model's attempts on one problem, whole or turn by turn."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated
from uuid import UUID

import flask
import msgspec
from msgspec import Meta, Struct

from app import enqueue
from app.domain.request import ConflictError, Request
from app.domain.trajectory import Message, Trajectory, Turn
from app.domain.user import Scope
from app.store.trajectory import problems, trajectories
from app.web import request_context
from app.web.api import backpressure, evaluations, schemas
from app.web.api.endpoint import answer, operation, refuse
from app.web.api.listing import ListQuery, newest_first
from app.web.api.runs import RunBody, run_of
from app.web.api.schemas import (
    MOST_TURNS,
    WORKFLOW,
    Device,
    DeviceClass,
    HowBody,
    Name,
    Options,
    Text,
    Urgency,
    Workflow,
)


class MessageBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """One chat message."""

    role: str
    content: str


class TurnBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """One attempt: the messages to the model since the last turn, its answer, and
    the candidate to be evaluated.
    """

    response: str
    """The answer as it came."""
    messages: Annotated[list[MessageBody], Meta(max_length=1_000)] = msgspec.field(
        default_factory=list
    )
    candidate: str | None = None
    """Source extracted from the answer; None where there was none."""


class TrajectoryBody(HowBody, forbid_unknown_fields=True, kw_only=True):
    """A trajectory with its turns so far."""

    turns: Annotated[list[TurnBody], Meta(max_length=MOST_TURNS)] = msgspec.field(
        default_factory=list
    )
    campaign: RunBody | None = None
    """The run with everything that it says about itself; `run` alone is its name."""
    label: Text | None = None
    """The submitter's own name for it."""
    trajectory_id: UUID | None = None
    """A new UUID of the sender's: with it the same request again is the same trajectory."""


class AppendBody(TurnBody, forbid_unknown_fields=True, kw_only=True):
    """Another turn."""

    turn_index: Annotated[int, Meta(ge=0, le=MOST_TURNS - 1)] | None = None
    """0-based; the number of turns so far.  With it, the same request again appends nothing."""
    gpu: DeviceClass = "cpu"
    device: Device | None = None
    priority: Urgency = "normal"
    workflow: Workflow = WORKFLOW
    options: Options | None = None  # type: ignore[valid-type]  # made from app.domain.job.JobOptions


class TurnAnswer(Struct, kw_only=True):
    """A turn as stored."""

    turn_index: int
    messages: list[MessageBody]
    response: str
    candidate: str | None
    job_id: UUID | None


class TrajectoryAnswer(Struct, kw_only=True):
    """A trajectory as stored, character for character."""

    trajectory_id: UUID
    problem_id: UUID
    backend: str
    run: str | None
    label: str | None
    turns: list[TurnAnswer]


class TrajectoryLine(Struct, kw_only=True):
    """A trajectory without its turns."""

    trajectory_id: UUID
    problem_id: UUID
    run: str | None
    label: str | None
    backend: str
    turns: int
    created_at: datetime


class TrajectoryList(Struct, kw_only=True):
    """Trajectories, newest first."""

    trajectories: list[TrajectoryLine]
    next: str | None
    """Where the list goes on."""


class TrajectoryQuery(ListQuery, forbid_unknown_fields=True, kw_only=True):
    """Selection of trajectories."""

    run: Name | None = None
    label: Text | None = None
    problem_id: UUID | None = None


@operation(
    "POST",
    "/trajectories",
    Scope.SUBMIT,
    body=TrajectoryBody,
    answers={201: TrajectoryAnswer},
    refusals=(404, 409, 413, 429),
    large=True,
)
def create(body: TrajectoryBody) -> flask.Response:
    """Store a trajectory, and have the candidate of every turn that has one evaluated."""
    if body.campaign is not None and body.run not in (None, body.campaign.name):
        refuse(
            409,
            "conflict",
            f"run: expected {body.campaign.name!r}, the campaign's name, got {body.run!r}",
        )
    request = evaluations.how_request(body, candidate=None)
    _check(request)
    trajectory_id = enqueue.enqueue_trajectory(
        request_context.database(),
        request_context.broker(),
        request=request,
        turns=[_turn(each, index) for index, each in enumerate(body.turns)],
        run=run_of(body.campaign) if body.campaign else None,
        label=body.label,
        trajectory_id=body.trajectory_id,
    )
    url = flask.url_for("api.trajectories_read", trajectory_id=trajectory_id)
    return answer(asdict(_stored(trajectory_id)), 201, Location=url)


@operation("GET", "/trajectories", Scope.READ, query=TrajectoryQuery, answers={200: TrajectoryList})
def index(query: TrajectoryQuery) -> flask.Response:
    """Trajectories, newest first."""
    return newest_first("trajectories", "trajectory_id", trajectories.listed, query)


@operation(
    "GET",
    "/trajectories/<uuid:trajectory_id>",
    Scope.READ,
    answers={200: TrajectoryAnswer},
    refusals=(404,),
)
def read(trajectory_id: UUID) -> flask.Response:
    """One trajectory with its turns; `/v1/evaluations/<job_id>` has the result of each."""
    return answer(asdict(_stored(trajectory_id)))


@operation(
    "POST",
    "/trajectories/<uuid:trajectory_id>/turns",
    Scope.SUBMIT,
    body=AppendBody,
    answers={201: TurnAnswer},
    refusals=(404, 409, 413, 429),
    large=True,
)
def append(trajectory_id: UUID, body: AppendBody) -> flask.Response:
    """Append a turn, and have its candidate evaluated."""
    stored = _stored(trajectory_id)
    with request_context.database().begin() as connection:
        problem = problems.get(connection, stored.problem_id)
    assert problem is not None  # a foreign key says so
    evaluations.check_cases(problem, body.workflow)
    request = Request(
        problem=problem,
        candidate=None,
        backend=stored.backend,
        device_class=body.gpu,
        device=body.device,
        priority=body.priority,
        run=stored.run,
        workflow=body.workflow,
        options=schemas.options(body.options),
    )
    _check(request)
    index = len(stored.turns) if body.turn_index is None else body.turn_index
    if index >= MOST_TURNS:
        raise ConflictError(
            f"expected at most {MOST_TURNS} turns, got a trajectory that has as many and"
            " another one"
        )
    turn = enqueue.enqueue_turn(
        request_context.database(),
        request_context.broker(),
        trajectory_id=trajectory_id,
        request=request,
        turn=_turn(body, index),
    )
    return answer(asdict(turn), 201)


def _check(request: Request) -> None:
    enqueue.check(request_context.database(), [replace(request, candidate=b"")])
    backpressure.check(request.device_class)


def _turn(body: TurnBody, index: int) -> Turn:
    messages = tuple(Message(role=each.role, content=each.content) for each in body.messages)
    return Turn(
        messages=messages, response=body.response, candidate=body.candidate, turn_index=index
    )


def _stored(trajectory_id: UUID) -> Trajectory:
    with request_context.database().begin() as connection:
        return request_context.one(connection, "trajectory", trajectory_id, trajectories.get)
