"""STORE: the list of trajectories, newest first, and the page of one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain.verdict import Label
from app.store.browse import paging, trajectory_orders
from app.store.evaluation import credited
from app.store.tables import (
    attempts,
    problems,
    runs,
    trajectories,
    turns,
)


@dataclass(frozen=True, kw_only=True)
class Named:
    """A trajectory with the names of its problem and run."""

    trajectory_id: UUID
    label: str | None
    backend: str
    created_at: datetime
    problem_id: UUID
    problem: str
    run_id: UUID | None
    run: str | None
    model: str | None


@dataclass(frozen=True, kw_only=True)
class TrajectoryRow(Named):
    """A line of the list of trajectories."""

    turns: int = 0
    correct: int = 0
    """Correct turns, hacks excluded."""
    hacks: int = 0
    best_speedup: float | None = None
    """Best credited one."""


NAMED = (
    trajectories.c.trajectory_id,
    trajectories.c.label,
    trajectories.c.backend,
    trajectories.c.created_at,
    trajectories.c.problem_id,
    problems.c.name.label("problem"),
    runs.c.run_id,
    runs.c.name.label("run"),
    runs.c.model,
)
SOURCE = trajectories.join(problems, problems.c.problem_id == trajectories.c.problem_id).outerjoin(
    runs, runs.c.run_id == trajectories.c.run_id
)


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Conditions of a list of trajectories; an empty one excludes nothing."""

    run: str = ""
    """Part of the run's name."""
    model: str = ""
    problem: str = ""
    """Part of the problem's name."""
    outcome: str = ""
    """A key of OUTCOMES."""
    run_id: UUID | None = None
    """Exactly this run, as its page and comparisons link it: `step-12` is a part of
    `step-120`, too.
    """
    problem_id: UUID | None = None


_has = sa.exists().where(attempts.c.trajectory_id == trajectories.c.trajectory_id)
_right = credited.is_credited(attempts.c.correct, attempts.c.label)
OUTCOMES: dict[str, sa.ColumnElement[bool]] = {
    "correct": _has.where(_right),
    "not_correct": sa.not_(_has.where(_right)),
    "hack": _has.where(attempts.c.label == Label.HACK),
}
"""Filter by the outcome of turns → its condition."""


def page(
    connection: sa.Connection, asked: Filter, window: paging.Window[UUID]
) -> paging.Page[TrajectoryRow]:
    """Trajectories that meet the filter, by age, by `best_speedup` (those that have a credited
    one), or in an order of `trajectory_orders`, which is for a filter that leaves at most MOST of
    them: see `total`.
    """
    conditions = _conditions(connection, asked)
    key: sa.ColumnElement[UUID] = trajectories.c.trajectory_id
    query = sa.select(key).where(*conditions)
    value: sa.ColumnElement[Any] = trajectory_orders.VALUES.get(window.sort, key)
    if window.sort == "best_speedup":
        value = attempts.c.speedup
        key = attempts.c.trajectory_id
        query = sa.select(key).where(credited.FASTEST, key.is_not(None), _is_best())
        if conditions:
            joined = attempts.join(
                trajectories, trajectories.c.trajectory_id == attempts.c.trajectory_id
            )
            query = query.select_from(joined).where(*conditions)
    order = paging.Order(value=value, key=key, nullable=False)
    return order.page(connection, query, lambda ids: of_ids(connection, ids), window)


def some_ids(connection: sa.Connection, asked: Filter, limit: int) -> list[UUID]:
    """Ids of at most that many trajectories that meet the filter, newest first."""
    key = trajectories.c.trajectory_id
    query = sa.select(key).where(*_conditions(connection, asked)).order_by(key.desc()).limit(limit)
    return list(connection.scalars(query))


def total(connection: sa.Connection, asked: Filter) -> paging.Total:
    """Number of trajectories that meet the filter."""
    return paging.total(
        connection, sa.select(trajectories.c.trajectory_id).where(*_conditions(connection, asked))
    )


def _is_best() -> sa.ColumnElement[bool]:
    """The attempt has the highest credited speedup of its trajectory; of equal ones, the latest."""
    other = attempts.alias("other")
    better = sa.tuple_(other.c.speedup, other.c.attempt_id) > sa.tuple_(
        attempts.c.speedup, attempts.c.attempt_id
    )
    return ~sa.exists().where(
        other.c.trajectory_id == attempts.c.trajectory_id,
        other.c.speedup.is_not(None),
        credited.is_credited(other.c.correct, other.c.label),
        better,
    )


def _conditions(connection: sa.Connection, asked: Filter) -> list[sa.ColumnElement[bool]]:
    """Names are looked up first: runs and problems are few, trajectories are many."""
    exact = {trajectories.c.run_id: asked.run_id, trajectories.c.problem_id: asked.problem_id}
    conditions: list[sa.ColumnElement[bool]] = [
        column == value for column, value in exact.items() if value is not None
    ]
    if asked.run or asked.model:
        named = sa.select(runs.c.run_id)
        named = (
            named.where(runs.c.name.icontains(asked.run, autoescape=True)) if asked.run else named
        )
        named = named.where(runs.c.model == asked.model) if asked.model else named
        conditions.append(
            trajectories.c.run_id == sa.any_(sa.literal(list(connection.scalars(named)), _IDS))
        )
    if asked.problem:
        named = sa.select(problems.c.problem_id).where(
            problems.c.name.icontains(asked.problem, autoescape=True)
        )
        conditions.append(
            trajectories.c.problem_id == sa.any_(sa.literal(list(connection.scalars(named)), _IDS))
        )
    if asked.outcome:
        conditions.append(OUTCOMES[asked.outcome])
    return conditions


_IDS = ARRAY(sa.Uuid)


def of_ids(connection: sa.Connection, wanted: list[UUID]) -> list[TrajectoryRow]:
    """Lines of the list for these trajectories, in their order."""
    query = sa.select(*NAMED).select_from(SOURCE).where(trajectories.c.trajectory_id.in_(wanted))
    found = {row["trajectory_id"]: row for row in connection.execute(query).mappings()}
    lengths, numbers = _lengths(connection, wanted), _numbers(connection, wanted)
    return [
        TrajectoryRow(**found[each], turns=lengths.get(each, 0), **numbers.get(each, {}))
        for each in wanted
    ]


def _lengths(connection: sa.Connection, trajectory_ids: list[UUID]) -> dict[UUID, int]:
    key = turns.c.trajectory_id
    query = sa.select(key, sa.func.count()).where(key.in_(trajectory_ids)).group_by(key)
    return dict(connection.execute(query).all())


def _numbers(connection: sa.Connection, trajectory_ids: list[UUID]) -> dict[UUID, dict[str, Any]]:
    """Trajectory → correct, hacks, best_speedup, over its evaluated turns: from `attempts`, where
    the rows of one trajectory lie together.
    """
    key = attempts.c.trajectory_id
    query = (
        sa.select(
            key,
            sa.func.count().filter(_right).label("correct"),
            sa.func.count().filter(attempts.c.label == Label.HACK).label("hacks"),
            sa.func.max(attempts.c.speedup).filter(_right).label("best_speedup"),
        )
        .where(key.in_(trajectory_ids))
        .group_by(key)
    )
    found = [dict(row) for row in connection.execute(query).mappings()]
    return {row.pop("trajectory_id"): row for row in found}
