"""STORE: the page of one job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app import routing
from app.store.evaluation import evaluation_rows
from app.store.postgres import row_columns
from app.store.tables import (
    candidates,
    evaluations,
    jobs,
    problems,
    runs,
    trajectories,
    turns,
    verdicts,
)

TURNS_LISTED = 20
"""Identical submissions share a job: enough of the turns that asked for it."""


@dataclass(frozen=True, kw_only=True)
class TurnLink:
    """Place in a trajectory where a job was asked for."""

    trajectory_id: UUID
    turn_index: int
    run_id: UUID | None
    run: str | None


@dataclass(frozen=True, kw_only=True)
class JobPage:
    """A job with its problem, candidate, evaluation and turns."""

    job_id: UUID
    state: str
    priority: str
    device_class: str
    device: str | None
    options: dict[str, Any]
    attempt: int
    interruptions: int
    not_before: datetime | None
    lease_owner: str | None
    lease_until: datetime | None
    cancel_requested: bool
    error_kind: str | None
    error_message: str | None
    created_at: datetime
    sent_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    problem_id: UUID
    problem: str
    source_set: str
    level: int | None
    entry_point: str
    candidate_id: UUID
    backend: str
    candidate: bytes
    reference: bytes
    run_id: UUID | None
    run: str | None
    """Name of the run with which the job was submitted."""
    evaluation_id: UUID | None
    status: str | None
    """Status of its evaluation."""
    verdict: str | None
    """The label that counts; None until it is judged."""
    turns: tuple[TurnLink, ...] = ()

    @property
    def runs(self) -> dict[UUID, str]:
        """Runs that asked for it → their names: identical submissions share a job."""
        asked = [(self.run_id, self.run), *((turn.run_id, turn.run) for turn in self.turns)]
        return {run_id: name for run_id, name in asked if run_id and name}

    @property
    def queue(self) -> str:
        """The queue of the workers that may run it."""
        return routing.queue_for(self.device_class, self.device)


def read(connection: sa.Connection, job_id: UUID) -> JobPage | None:
    """The page of one job; None where there is none of that id."""
    query = (
        sa.select(
            *row_columns.of(
                JobPage,
                jobs,
                problems,
                candidates,
                evaluations,
                problem=problems.c.name,
                candidate=candidates.c.source,
                run=runs.c.name,
                verdict=evaluation_rows.LABEL,
            )
        )
        .select_from(
            jobs.join(problems, jobs.c.problem_id == problems.c.problem_id)
            .join(candidates, jobs.c.candidate_id == candidates.c.candidate_id)
            .outerjoin(runs, runs.c.run_id == jobs.c.run_id)
            .outerjoin(evaluations, evaluations.c.job_id == jobs.c.job_id)
            .outerjoin(verdicts, evaluation_rows.CURRENT)
        )
        .where(jobs.c.job_id == job_id)
    )
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else JobPage(**row, turns=_turns_of(connection, job_id))


def _turns_of(connection: sa.Connection, job_id: UUID) -> tuple[TurnLink, ...]:
    query = (
        sa.select(*row_columns.of(TurnLink, turns, runs, run=runs.c.name))
        .select_from(
            turns.join(
                trajectories, turns.c.trajectory_id == trajectories.c.trajectory_id
            ).outerjoin(runs, trajectories.c.run_id == runs.c.run_id)
        )
        .where(turns.c.job_id == job_id)
        .order_by(turns.c.trajectory_id.desc())
        .limit(TURNS_LISTED)
    )
    return tuple(TurnLink(**row) for row in connection.execute(query).mappings())
