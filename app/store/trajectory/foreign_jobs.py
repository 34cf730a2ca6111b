"""STORE: turns whose job is of another problem than their trajectory, and their repair.

The same reference may be stored as several problems, and an evaluation has the problem of its job.
`app.store.queue.jobs.add` lets no turn share such a job; databases that older versions wrote hold
some: datasets count them for the other problem, roll-ups for their own.

A repaired turn has a job of its own problem, which is evaluated: the measurement of the other one
is not copied, because every stored measurement is one that was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain import ids
from app.domain.collection.states import NodeState
from app.domain.job import TERMINAL, JobOptions
from app.store import tables
from app.store.postgres import row_columns
from app.store.postgres.database import Database
from app.store.queue import jobs

BATCH = 500
"""Turns repaired in one transaction."""

_t = tables.turns.c
_j = tables.jobs.c
_y = tables.trajectories.c
_n = tables.nodes.c


@dataclass(frozen=True, kw_only=True)
class ForeignJob:
    """Turns of one problem with jobs of another one."""

    problem_id: UUID
    problem: str
    source_set: str
    other_problem: str
    other_source_set: str
    turns: int


def listed(connection: sa.Connection) -> list[ForeignJob]:
    """Every pair of a turn's problem and its job's, the one with most turns first."""
    own, other = tables.problems.alias("own"), tables.problems.alias("other")
    number = sa.func.count()
    columns = row_columns.of(
        ForeignJob,
        own,
        problem=own.c.name,
        other_problem=other.c.name,
        other_source_set=other.c.source_set,
        turns=number,
    )
    query = (
        _foreign(*columns)
        .join(own, own.c.problem_id == _y.problem_id)
        .join(other, other.c.problem_id == _j.problem_id)
        .group_by(own.c.problem_id, other.c.problem_id)
        .order_by(number.desc(), own.c.problem_id, other.c.problem_id)
    )
    return [ForeignJob(**row) for row in connection.execute(query).mappings()]


def repair(database: Database) -> int:
    """Give turns jobs of their own problem, in batches; the number of turns.

    Queued jobs are sent by a worker's sweep; a job that is stored already is shared.  Turns whose
    job has not ended, or that a collection's decision waits for, stay as they are until then.
    """
    repaired = 0
    while number := _repair_batch(database):
        repaired += number
    return repaired


def _foreign(*columns: Any) -> sa.Select[Any]:
    return (
        sa.select(*columns)
        .select_from(
            tables.turns.join(tables.trajectories, _y.trajectory_id == _t.trajectory_id).join(
                tables.jobs, _j.job_id == _t.job_id
            )
        )
        .where(_j.problem_id != _y.problem_id)
    )


def _repair_batch(database: Database) -> int:
    undecided = sa.exists().where(_n.turn_id == _t.turn_id, _n.state != NodeState.DONE)
    query = _foreign(
        _t.turn_id,
        _t.job_id,
        _y.problem_id,
        _y.run_id,
        *(_j[name] for name in ("candidate_id", "idempotency_key", "priority", "device_class")),
        _j.device,
        _j.options,
    ).where(_j.state.in_(TERMINAL), ~undecided)
    with database.begin() as connection:
        chosen = (
            query.order_by(_t.turn_id).limit(BATCH).with_for_update(key_share=True, of=tables.turns)
        )
        found = connection.execute(chosen).all()
        own_jobs = jobs.add(connection, [_own_job(row) for row in found])
        for row, job_id in zip(found, own_jobs, strict=True):
            for table, key in ((tables.turns, _t.turn_id), (tables.nodes, _n.turn_id)):
                changed = sa.update(table).where(key == row.turn_id)
                connection.execute(changed.values(job_id=job_id))
    return len(found)


def _own_job(row: Any) -> jobs.NewJob:
    """The job of a turn's own problem, with everything else as the other one has it."""
    return jobs.NewJob(
        job_id=ids.new_id(),
        problem_id=row.problem_id,
        candidate_id=row.candidate_id,
        idempotency_key=row.idempotency_key,
        priority=row.priority,
        device_class=row.device_class,
        device=row.device,
        options=JobOptions(**row.options),
        run_id=row.run_id,
        of_turn=True,
    )
