"""BROWSE: `/v1/events`: progress as server-sent events, for jobs that a client waits for.

    event: state      data: {"job_id": …, "state": "running"}
    event: progress   data: {"over": 17, "total": 64}
    event: end        data: {"over": 64, "total": 64}

The stream begins with the state of every job, says every change, and ends when all are over; `end`
tells a client not to come back, which an EventSource does by itself after any other ending.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated
from uuid import UUID

import flask
from msgspec import Meta, Struct

from app.domain.job import TERMINAL, JobState
from app.domain.user import Scope
from app.store.postgres.database import Database
from app.store.queue import jobs
from app.web import request_context
from app.web.api.endpoint import operation
from app.web.job_waiter import Ended, StoppingError, Watch

MOST_JOBS = 100
"""More do not fit into a URL that every server and proxy takes; `POST
/v1/evaluations:wait` waits for a thousand.
"""
LOOK_S = 1.0
"""Which jobs have begun to run is looked up this often, in seconds; their ends are announced."""
BEAT_S = 15.0
"""A comment is sent this often, in seconds, so that proxies keep the stream and a
client that is gone is noticed.
"""
LONGEST_S = 3_600.0
"""Longest duration of a stream, in seconds; its client opens another."""


class EventQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    """Selection of jobs."""

    job_id: Annotated[list[UUID], Meta(min_length=1, max_length=MOST_JOBS)]
    """May be repeated."""


@operation(
    "GET",
    "/events",
    Scope.READ,
    query=EventQuery,
    answers={200: None},
    refusals=(404,),
    media="text/event-stream",
)
def stream(query: EventQuery) -> flask.Response:
    """Server-sent events for up to 100 jobs, until all are over."""
    return _streamed(query.job_id)


@operation(
    "GET",
    "/evaluations/<uuid:job_id>/events",
    Scope.READ,
    answers={200: None},
    refusals=(404,),
    media="text/event-stream",
)
def stream_one(job_id: UUID) -> flask.Response:
    """Server-sent events for one job, until it is over."""
    return _streamed([job_id])


def _streamed(job_ids: list[UUID]) -> flask.Response:
    with request_context.database().read() as connection:
        known = jobs.states(connection, job_ids)
    for job_id in job_ids:
        if job_id not in known:
            request_context.missing("job", job_id)
    response = flask.Response(
        _events(request_context.database(), request_context.watch(), list(known)),
        mimetype="text/event-stream",
    )
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"  # nginx would hold events back
    return response


def _events(database: Database, watch: Watch, job_ids: list[UUID]) -> Iterator[str]:
    told: dict[UUID, JobState] = {}
    until = time.monotonic() + LONGEST_S
    beat_at = time.monotonic() + BEAT_S
    yield "retry: 2000\n\n"
    with (
        watch.ends(job_ids) as ended,
        suppress(StoppingError),
    ):  # a client of the stream comes back by itself
        while time.monotonic() < until:
            yield from _changes(database, job_ids, told)
            if all(told.get(job_id) in TERMINAL for job_id in job_ids):
                yield _event("end", {"over": len(job_ids), "total": len(job_ids)})
                return
            if time.monotonic() >= beat_at:
                beat_at = time.monotonic() + BEAT_S
                yield ": still here\n\n"
            _next(ended)


def _changes(database: Database, job_ids: list[UUID], told: dict[UUID, JobState]) -> Iterator[str]:
    """Changes since the last event."""
    open_ids = [job_id for job_id in job_ids if told.get(job_id) not in TERMINAL]
    with database.read() as connection:
        states = jobs.states(connection, open_ids)
    changed = {job_id: state for job_id, state in states.items() if told.get(job_id) != state}
    told.update(changed)
    for job_id, state in changed.items():
        yield _event("state", {"job_id": str(job_id), "state": str(state)})
    if changed and len(job_ids) > 1:
        yield _event(
            "progress",
            {"over": sum(state in TERMINAL for state in told.values()), "total": len(job_ids)},
        )


def _next(ended: Ended) -> None:
    """Wait until a job has ended, or it is time to look which have begun; ends that
    come together are told together.
    """
    timeout_s = LOOK_S
    while ended.next(timeout_s) is not None:
        timeout_s = 0.0


def _event(name: str, data: dict[str, object]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
