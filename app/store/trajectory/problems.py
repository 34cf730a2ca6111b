"""STORE: problems, addressed by content: the same reference and entry point under
the same name are one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain import ids
from app.domain.problem import Problem
from app.store import tables
from app.store.postgres import bulk, row_columns

_p = tables.problems.c
_KEY = ("reference_sha256", "source_set", "name", "entry_point")
"""Identity of a problem: with another entry point the same reference expects other outputs."""
COLUMNS = (_p.name, _p.reference, _p.source_set, _p.level, _p.entry_point)
"""Columns that are fields of a Problem."""


def add(connection: sa.Connection, problems: Sequence[Problem]) -> list[UUID]:
    """Ids of the problems in their order; those that are not stored yet are."""
    rows = [
        {
            "problem_id": ids.new_id(),
            "source_set": problem.source_set,
            "name": problem.name,
            "level": problem.level,
            "entry_point": problem.entry_point,
            "reference": problem.reference,
            "reference_sha256": problem.reference_sha256,
        }
        for problem in dict.fromkeys(problems)
    ]
    known = bulk.insert_missing(connection, tables.problems, rows, unique=_KEY)
    return [known[tuple(getattr(problem, name) for name in _KEY)].row_id for problem in problems]


def get(connection: sa.Connection, problem_id: UUID) -> Problem | None:
    """The problem of that id, if there is one."""
    row = connection.execute(sa.select(*COLUMNS).where(_p.problem_id == problem_id)).one_or_none()
    return None if row is None else problem_of(row)


def problem_of(row: Any) -> Problem:
    """The problem in a row with COLUMNS."""
    return Problem(**{column.name: getattr(row, column.name) for column in COLUMNS})


def set_operators(connection: sa.Connection, job_id: UUID, operators: str) -> None:
    """Record the semantic key of a job's problem, unless it has one: the first
    evaluation decides.
    """
    of_job = (
        sa.select(tables.jobs.c.problem_id).where(tables.jobs.c.job_id == job_id).scalar_subquery()
    )
    missing = sa.and_(_p.problem_id == of_job, _p.operators.is_(None))
    connection.execute(sa.update(tables.problems).where(missing).values(operators=operators))


@dataclass(frozen=True, kw_only=True)
class ProblemSummary:
    """A problem without its source."""

    problem_id: UUID
    name: str
    source_set: str
    level: int | None
    entry_point: str
    reference_sha256: str


def listed(
    connection: sa.Connection,
    *,
    source_set: str | None = None,
    name: str | None = None,
    before: UUID | None = None,
    limit: int,
) -> list[ProblemSummary]:
    """Problems, newest first: of a source set, of a name, of before that one."""
    columns = row_columns.of(ProblemSummary, tables.problems)
    query = sa.select(*columns).order_by(_p.problem_id.desc()).limit(limit)
    for column, value in ((_p.source_set, source_set), (_p.name, name)):
        if value is not None:
            query = query.where(column == value)
    if before is not None:
        query = query.where(_p.problem_id < before)
    return [ProblemSummary(**row._mapping) for row in connection.execute(query)]
