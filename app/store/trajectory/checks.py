"""STORE: checks of problems: the latest of each problem and device class.  Not evaluations: no
page, figure or dataset counts a reference among the attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.domain import ids, problem_check
from app.domain.evaluation import Evaluation
from app.domain.job import JobState
from app.domain.problem import Problem
from app.domain.verdict import Verdict
from app.store import tables
from app.store.postgres import jsonb
from app.store.queue import jobs, leases
from app.store.trajectory import problems as stored_problems

_c = tables.problem_checks.c
_p = tables.problems.c
_j = tables.jobs.c


@dataclass(frozen=True, kw_only=True)
class Device:
    """Device on which problems were checked, and the rules of the measurement."""

    device_class: str
    device_name: str
    protocol: str


@dataclass(frozen=True, kw_only=True)
class Check:
    """One problem on one device class."""

    problem_id: UUID
    device_class: str
    device_name: str
    job_id: UUID | None
    """None for a check that ran without the queue."""
    checked_at: datetime
    protocol: str
    row: problem_check.CheckRow


def add(
    connection: sa.Connection, lease: leases.Lease, *, evaluation: Evaluation, verdict: Verdict
) -> UUID | None:
    """Store the outcome of a claim and finish its job, all or nothing in the caller's transaction.

    None, and nothing is stored, where the lease is lost."""
    finished = leases.finish(connection, lease)
    if finished is None:
        return None
    found = connection.execute(
        sa.select(_p.problem_id, _p.name, _p.level)
        .select_from(tables.jobs.join(tables.problems))
        .where(_j.job_id == lease.job.job_id)
    ).one()
    problem = Problem(name=found.name, level=found.level, reference=lease.job.reference)
    row = problem_check.row(problem, evaluation, verdict, finished.total_ms / 1000)
    here = evaluation.environment
    on = Device(
        device_class=here.device_class, device_name=here.device_name, protocol=evaluation.protocol
    )
    return _put(
        connection,
        found.problem_id,
        row,
        on,
        connection.execute(sa.select(sa.func.now())).scalar_one(),
        job_id=lease.job.job_id,
    )


def record(
    connection: sa.Connection,
    rows: Sequence[problem_check.CheckRow],
    on: Device,
    checked_at: datetime,
) -> int:
    """Store the rows of checks that ran without the queue; returns the number of their problems
    that are stored.  Newer checks are kept.
    """
    of: dict[str, list[UUID]] = {}
    hashes = [row.reference_sha256 for row in rows]
    for found in connection.execute(
        sa.select(_p.problem_id, _p.reference_sha256).where(_p.reference_sha256.in_(hashes))
    ):
        of.setdefault(found.reference_sha256, []).append(found.problem_id)
    for row in rows:
        for problem_id in of.get(row.reference_sha256, ()):
            _put(connection, problem_id, row, on, checked_at)
    return sum(row.reference_sha256 in of for row in rows)


def _put(
    connection: sa.Connection,
    problem_id: UUID,
    row: problem_check.CheckRow,
    on: Device,
    checked_at: datetime,
    *,
    job_id: UUID | None = None,
) -> UUID | None:
    """The id of the check; None if there is a newer one."""
    values = {
        "problem_id": problem_id,
        "job_id": job_id,
        **asdict(on),
        "outcome": row.outcome,
        "row": jsonb.plain(asdict(row)),
        "checked_at": checked_at,
    }
    statement = insert(tables.problem_checks).values(problem_check_id=ids.new_id(), **values)
    newest = statement.on_conflict_do_update(
        index_elements=["problem_id", "device_class"],
        set_=values,
        where=_c.checked_at <= checked_at,
    )
    stored: UUID | None = connection.execute(
        newest.returning(_c.problem_check_id)
    ).scalar_one_or_none()
    return stored


def of_problem(connection: sa.Connection, problem_id: UUID) -> list[Check]:
    """The latest on each device class, by its name."""
    query = (
        sa.select(tables.problem_checks)
        .where(_c.problem_id == problem_id)
        .order_by(_c.device_class)
    )
    return [_check(found) for found in connection.execute(query)]


def of_jobs(
    connection: sa.Connection, job_ids: Sequence[UUID]
) -> dict[UUID, problem_check.CheckRow]:
    """Checks of the problems of finished jobs; for a failed job, its fault.  A job that finished
    earlier has the newest check of its problem and device class.
    """
    same = sa.and_(
        _c.problem_id == _j.problem_id,
        _c.device_class == _j.device_class,
        _j.state == JobState.FINISHED,
    )
    query = (
        sa.select(_j.job_id, _j.state, _j.error_kind, _j.error_message, _p.name, _p.level, _c.row)
        .select_from(tables.jobs.join(tables.problems).outerjoin(tables.problem_checks, same))
        .where(jobs.id_in(job_ids))
    )
    return {found.job_id: _row(found) for found in connection.execute(query)}


def problems(
    connection: sa.Connection, *, source_set: str | None, levels: Sequence[int] = (), name: str = ""
) -> list[Problem]:
    """Problems of a source set, some levels (none: all) and names that contain
    `name`, in that order.
    """
    conditions = [_p.name.icontains(name, autoescape=True)] if name else []
    conditions += [_p.source_set == source_set] if source_set is not None else []
    conditions += [_p.level.in_(levels)] if levels else []
    query = sa.select(*stored_problems.COLUMNS).where(*conditions)
    found = query.order_by(_p.source_set, _p.level.nulls_last(), _p.name, _p.problem_id)
    return [stored_problems.problem_of(row) for row in connection.execute(found)]


def _check(found: Any) -> Check:
    fields = {
        name: value for name, value in found._mapping.items() if name in Check.__dataclass_fields__
    }
    return Check(**{**fields, "row": problem_check.read(found.row)})


def _row(found: Any) -> problem_check.CheckRow:
    if found.row is not None:
        return problem_check.read(found.row)
    kind = found.error_kind if found.state == JobState.FAILED else str(found.state)
    return problem_check.fault(
        Problem(name=found.name, level=found.level, reference=b""), kind, found.error_message or ""
    )
