"""ENQUEUE: JSON bodies of requests to the HTTP API, and trajectories in its answers."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

from app.client.submission import Submission, as_bytes, as_problem
from app.domain.job import JobOptions
from app.domain.problem import Problem
from app.domain.request import Request
from app.domain.rollout import Rollout
from app.domain.source import source_text
from app.domain.trajectory import Message, Trajectory, Turn

BATCH = 500
"""Submissions in one request."""
BATCH_BYTES = 16 << 20
"""A batch is sent when its sources are this long, at the latest."""


def batches(submissions: Sequence[Submission]) -> Iterator[Sequence[Submission]]:
    """Submissions in parts of one request each."""
    batch: list[Submission] = []
    size = 0
    for submission in submissions:
        length = len(submission.candidate) + len(as_problem(submission.reference).reference)
        if batch and (len(batch) == BATCH or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(submission)
        size += length
    if batch:
        yield batch


def item_body(submission: Submission) -> dict[str, Any]:
    """A submission of a batch."""
    request = submission.request()
    item = {"candidate": _text(as_bytes(submission.candidate)), "fresh": submission.fresh}
    if submission.fresh:
        item["idempotency_key"] = secrets.token_hex(16)
    return {**item, **submission_body(request.problem, request)}


def rollout_body(rollout: Rollout) -> dict[str, Any]:
    """A trainer's answer to a problem."""
    usual = asdict(JobOptions())
    problem = rollout.problem
    return {
        "problem_id": None if rollout.problem_id is None else str(rollout.problem_id),
        "problem": None if problem is None else problem_body(problem),
        "candidate": _text(rollout.candidate),
        "response": rollout.answer,
        "campaign": asdict(rollout.run),
        "messages": [vars(each) for each in rollout.messages],
        "label": rollout.label,
        "claims": dict(rollout.claims),
        "repeatable": rollout.repeatable,
        "backend": rollout.backend,
        "gpu": rollout.device_class,
        "device": rollout.device,
        "priority": str(rollout.priority),
        "options": {
            name: value for name, value in asdict(rollout.options).items() if value != usual[name]
        },
    }


def problem_body(problem: Problem) -> dict[str, Any]:
    """A problem with its reference."""
    return {
        "reference": _text(problem.reference),
        "name": problem.name,
        "source_set": problem.source_set,
        "level": problem.level,
        "entry_point": problem.entry_point,
    }


def submission_body(problem: Problem, request: Request) -> dict[str, Any]:
    """Fields of a submission beside the candidate; those with defaults are left out,
    for servers of another version.
    """
    usual = asdict(JobOptions())
    workflow = {} if request.workflow == Request.workflow else {"workflow": request.workflow}
    return {
        "problem": problem_body(problem),
        "backend": request.backend,
        "gpu": request.device_class,
        "device": request.device,
        "priority": str(request.priority),
        "run": request.run,
        "options": {
            name: value for name, value in asdict(request.options).items() if value != usual[name]
        },
        **workflow,
    }


def _text(data: bytes) -> str | dict[str, str]:
    """The source as JSON: text where it is one."""
    try:
        return source_text.decode(data)
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def turn_body(turn: Turn) -> dict[str, Any]:
    """A turn of a trajectory."""
    messages = [vars(each) for each in turn.messages]
    return {"messages": messages, "response": turn.response, "candidate": turn.candidate}


def read_trajectory(told: dict[str, Any]) -> Trajectory:
    """The trajectory of an answer."""
    turns = tuple(
        Turn(
            messages=tuple(Message(**each) for each in turn["messages"]),
            response=turn["response"],
            candidate=turn["candidate"],
            turn_index=turn["turn_index"],
            job_id=UUID(turn["job_id"]) if turn["job_id"] else None,
        )
        for turn in told["turns"]
    )
    return Trajectory(
        trajectory_id=UUID(told["trajectory_id"]),
        problem_id=UUID(told["problem_id"]),
        backend=told["backend"],
        run=told["run"],
        label=told["label"],
        turns=turns,
    )
