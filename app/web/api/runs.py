"""BROWSE: `/v1/runs`: campaigns, by name."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import flask
from msgspec import Struct
from werkzeug.exceptions import NotFound

from app.domain import freeform
from app.domain.trajectory import Run
from app.domain.user import Scope
from app.store.figures import run_figures
from app.store.postgres.database import Connection
from app.store.trajectory import runs, trajectories
from app.web import request_context
from app.web.api.endpoint import answer, operation
from app.web.api.listing import ListQuery, newest_first
from app.web.api.schemas import Count, Name, Text


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


class RunFigures(RunAnswer, kw_only=True):
    """A run with its figures."""

    figures: run_figures.Figures


class RunList(Struct, kw_only=True):
    """Runs, newest first."""

    runs: list[RunAnswer]
    next: str | None
    """Where the list goes on."""


class RunQuery(ListQuery, forbid_unknown_fields=True, kw_only=True):
    """Selection of runs."""

    name: Name | None = None


@operation("POST", "/runs", Scope.SUBMIT, body=RunBody, answers={201: RunAnswer}, refusals=(409,))
def create(body: RunBody) -> flask.Response:
    """Store a run; the same again is the same run, another of the same name is a conflict."""
    with request_context.database().begin() as connection:
        run_id = trajectories.add_run(connection, run_of(body))
        stored = runs.get(connection, run_id)
    assert stored is not None
    return answer(vars(stored), 201, Location=flask.url_for("api.runs_read", run=run_id))


@operation("GET", "/runs", Scope.READ, query=RunQuery, answers={200: RunList})
def index(query: RunQuery) -> flask.Response:
    """Runs, newest first."""
    return newest_first("runs", "run_id", runs.listed, query)


@operation("GET", "/runs/<given:run>", Scope.READ, answers={200: RunFigures}, refusals=(404,))
def read(run: str) -> flask.Response:
    """One run, by its name or its id, with live figures: counts, rewards of its
    latest evaluations, open jobs.
    """
    with request_context.database().snapshot() as connection:
        found = _found(connection, run)
        figures = None if found is None else run_figures.of_run(connection, found.run_id)
    if found is None or figures is None:
        raise NotFound(f"There is no run {run!r}.")
    return answer({**vars(found), "figures": vars(figures)})


def _found(connection: Connection, run: str) -> runs.StoredRun | None:
    if "\0" in run:
        return None
    try:
        by_id = runs.get(connection, UUID(run))
    except ValueError:
        by_id = None
    return by_id or next(iter(runs.listed(connection, name=run, limit=1)), None)


def run_of(body: RunBody) -> Run:
    """The run for the service.  Raises RequestError for settings that cannot be
    stored and shown.
    """
    freeform.check(body.settings, "settings")
    return Run(name=body.name, model=body.model, settings=body.settings, step=body.step)
