"""BROWSE: `/v1/runs`: campaigns, by name."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import flask
from msgspec import Struct

from app.domain import freeform
from app.domain.trajectory import Run
from app.domain.user import Scope
from app.store import runs, trajectories
from app.web import context
from app.web.api.operation import answer, operation, refuse
from app.web.api.schemas import Count, Limit, Name, Text


class RunBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """A campaign: which model, which settings, which training step."""

    name: Name
    model: Text | None = None
    settings: dict[str, Any] = {}
    step: Count | None = None


class RunAnswer(Struct, kw_only=True):
    """A run as stored."""

    run_id: UUID
    name: str
    model: str | None
    settings: dict[str, Any]
    step: int | None
    created_at: datetime


class RunList(Struct, kw_only=True):
    """Runs, newest first."""

    runs: list[RunAnswer]
    next: str | None
    """Where the list goes on."""


class RunQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    """Which runs."""

    name: Name | None = None
    before: UUID | None = None
    limit: Limit = 50


@operation("POST", "/runs", Scope.SUBMIT, body=RunBody, answers={201: RunAnswer}, refusals=(409,))
def create(body: RunBody) -> flask.Response:
    """Store a run; the same again is the same run, another of the same name is a conflict."""
    try:
        with context.database().begin() as connection:
            run_id = trajectories.add_run(connection, run_of(body))
            stored = runs.get(connection, run_id)
    except trajectories.RunConflictError as error:
        refuse(409, "conflict", str(error))
    assert stored is not None
    return answer(vars(stored), 201, Location=flask.url_for("api.runs_read", run_id=run_id))


@operation("GET", "/runs", Scope.READ, query=RunQuery, answers={200: RunList})
def index(query: RunQuery) -> flask.Response:
    """Runs, newest first."""
    with context.database().snapshot() as connection:
        found = runs.listed(connection, name=query.name, before=query.before, limit=query.limit + 1)
    shown = found[: query.limit]
    following = None
    if len(found) > len(shown):
        following = flask.url_for("api.runs_index", before=shown[-1].run_id, limit=query.limit)
    return answer({"runs": [vars(each) for each in shown], "next": following})


@operation("GET", "/runs/<uuid:run_id>", Scope.READ, answers={200: RunAnswer}, refusals=(404,))
def read(run_id: UUID) -> flask.Response:
    """One run."""
    with context.database().snapshot() as connection:
        found = runs.get(connection, run_id) or context.missing("run", run_id)
    return answer(vars(found))


def run_of(body: RunBody) -> Run:
    """The run for the service.  Raises RequestError for settings that cannot be stored and shown."""
    freeform.check(body.settings, "settings")
    return Run(name=body.name, model=body.model, settings=body.settings, step=body.step)
