"""STORE: the list of runs, and the inputs of a run's page.  Counts come from roll-ups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from itertools import repeat
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, aggregate_order_by

from app.domain import freeform
from app.store.browse import paging
from app.store.tables import attempt_counts, attempts, problems, run_rewards, runs
from app.store.trajectory import attempt_lines

COUNTS = tuple(column.name for column in attempt_counts.c if isinstance(column.type, sa.BigInteger))
"""Names of the counts in `attempt_counts`."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Attempts of a run, a level or a problem, and how they fared; see app.store.tables.rollups."""

    attempts: int = 0
    correct: int = 0
    passed: int = 0
    hacks: int = 0
    suspects: int = 0
    timed: int = 0
    log_speedup_e9: int = 0
    faster_than_1: int = 0
    faster_than_1_2: int = 0
    faster_than_1_5: int = 0
    faster_than_2: int = 0

    @property
    def revision(self) -> tuple[int, ...]:
        """Numbers that change whenever an attempt does."""
        return tuple(getattr(self, name) for name in COUNTS)

    @property
    def mean_log_speedup(self) -> float | None:
        """Mean logarithm of the speedup of attempts that are correct, no hack, and timed."""
        return self.log_speedup_e9 / 1e9 / self.timed if self.timed else None


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """A line of the list of runs."""

    run_id: UUID
    name: str
    model: str | None
    step: int | None
    settings: dict[str, Any]
    created_at: datetime
    counts: Counts

    @property
    def geometric_mean(self) -> float | None:
        """Geometric-mean speedup of the credited attempts."""
        mean = self.counts.mean_log_speedup
        return None if mean is None else math.exp(mean)


class RunAttempt(NamedTuple):
    """One attempt of a run.  There are tens of thousands at once: a tuple is made in
    a third of the time.
    """

    problem_id: UUID
    passed: bool
    """True if every call was right, independent of the verdict."""
    label: str | None
    """None for an answer without code."""
    speedup: float | None
    """Speedup as measured, independent of the verdict."""


def summed_by(key: sa.Column[Any]) -> sa.Subquery:
    """Counts of every value of a column of `attempt_counts`, the value as `key`."""
    totals = [sa.func.sum(attempt_counts.c[name]).label(name) for name in COUNTS]
    return sa.select(key.label("key"), *totals).group_by(key).subquery()


def count_sorts(sums: sa.Subquery) -> dict[str, sa.ColumnElement[Any]]:
    """Name of an order → its value over `summed_by`: counts, shares of the attempts,
    geometric mean.
    """
    of = sa.func.nullif(sums.c.attempts, 0)
    shares = (
        "correct",
        "hacks",
        "faster_than_1",
        "faster_than_1_2",
        "faster_than_1_5",
        "faster_than_2",
    )
    return {
        "attempts": sa.func.coalesce(sums.c.attempts, 0),
        **{name: sums.c[name] / of for name in shares},
        "geometric_mean": sums.c.log_speedup_e9 / sa.func.nullif(sums.c.timed, 0),
    }


@dataclass(frozen=True, kw_only=True)
class ProblemName:
    """A problem's columns in a table."""

    name: str
    level: int | None


_sums = summed_by(attempt_counts.c.run_id)
_COUNTS = count_sorts(_sums)

SORTS: dict[str, sa.ColumnElement[Any]] = {
    "created_at": runs.c.run_id,
    "name": runs.c.name,
    "model": runs.c.model,
    "step": runs.c.step,
    "reward": run_rewards.c.mean,
    **_COUNTS,
}
"""Order of the list → its value.  Ids are as old as their rows."""


def page(
    connection: sa.Connection,
    window: paging.Window[UUID],
    *,
    name: str = "",
    model: str = "",
    reward: str = "",
) -> paging.Page[RunRow]:
    """Runs with `name` in their names, of that model (empty: any), in an order of SORTS, by age as
    a rule; `reward`: the one whose kept means are the order by `reward`.
    """
    sort = window.sort or "created_at"
    order = paging.Order(value=SORTS[sort], key=runs.c.run_id, nullable=sort != "created_at")
    query = (
        sa.select(runs.c.run_id).select_from(_source(sort, reward)).where(*_conditions(name, model))
    )
    return order.page(connection, query, lambda ids: _of_ids(connection, ids), window)


def _source(sort: str, reward: str) -> sa.FromClause:
    """Tables that hold the value of an order."""
    if sort == "reward":
        return runs.outerjoin(
            run_rewards,
            sa.and_(run_rewards.c.run_id == runs.c.run_id, run_rewards.c.reward == reward),
        )
    return runs.outerjoin(_sums, _sums.c.key == runs.c.run_id) if sort in _COUNTS else runs


def total(connection: sa.Connection, *, name: str = "", model: str = "") -> paging.Total:
    """Number of runs that `page` lists."""
    return paging.total(connection, sa.select(runs.c.run_id).where(*_conditions(name, model)))


def _conditions(name: str, model: str) -> list[sa.ColumnElement[bool]]:
    conditions = [runs.c.name.icontains(name, autoescape=True)] if name else []
    return conditions + ([runs.c.model == model] if model else [])


def _of_ids(connection: sa.Connection, ids: list[UUID]) -> list[RunRow]:
    found = {
        row.run_id: row
        for row in _listed(connection, sa.select(runs).where(runs.c.run_id.in_(ids)))
    }
    return [found[each] for each in ids]


def models(connection: sa.Connection) -> list[str]:
    """Every model that a run names."""
    return list(
        connection.scalars(
            sa.select(runs.c.model)
            .where(runs.c.model.is_not(None))
            .distinct()
            .order_by(runs.c.model)
        )
    )


def read(connection: sa.Connection, run_id: UUID) -> RunRow | None:
    """One run; None where there is none of that id."""
    found = _listed(connection, sa.select(runs).where(runs.c.run_id == run_id))
    return found[0] if found else None


@dataclass(frozen=True, kw_only=True)
class Training:
    """Runs of one model and training with a step: one line of a chart over steps."""

    run_id: UUID
    """Its first run, which stands for it in URLs."""
    name: str
    """Its `training`, or else its model."""
    runs: int
    first_step: int
    last_step: int


def trainings(connection: sa.Connection, limit: int = 200) -> list[Training]:
    """Trainings of two runs or more, the one with the newest run first."""
    told = runs.c.settings["training"].astext
    first = sa.func.array_agg(
        aggregate_order_by(runs.c.run_id, runs.c.step, runs.c.run_id), type_=ARRAY(sa.Uuid)
    )[1]
    query = (
        sa.select(
            first.label("run_id"),
            sa.func.coalesce(told, runs.c.model).label("name"),
            sa.func.count().label("runs"),
            sa.func.min(runs.c.step).label("first_step"),
            sa.func.max(runs.c.step).label("last_step"),
        )
        .where(runs.c.model.is_not(None), runs.c.step.is_not(None))
        .group_by(runs.c.model, told)
        .having(sa.func.count() > 1)
        .order_by(sa.func.max(runs.c.created_at).desc(), first)
        .limit(limit)
    )
    return [Training(**row) for row in connection.execute(query).mappings()]


def siblings(connection: sa.Connection, run: RunRow, limit: int = 200) -> list[RunRow]:
    """Runs of the same model and training that have a step, by step; the run itself among them.

    `training` of the settings tells trainings of one model apart (app.domain.rollout.Place)."""
    if run.model is None or run.step is None:
        return []
    training = run.settings.get("training")
    told = None if training is None else str(training)
    query = sa.select(runs).where(
        runs.c.model == run.model,
        runs.c.step.is_not(None),
        runs.c.settings["training"].astext.is_not_distinct_from(told),
    )
    return _listed(connection, query.order_by(runs.c.step, runs.c.run_id).limit(limit))


def revision(connection: sa.Connection, run_ids: list[UUID]) -> tuple[int, ...]:
    """Numbers that change with the counts of those runs: figures from their attempts
    may be cached until then.

    Of one run, they are those of `Counts.revision`.
    """
    totals = [sa.func.coalesce(sa.func.sum(attempt_counts.c[name]), 0) for name in COUNTS]
    found = connection.execute(sa.select(*totals).where(attempt_counts.c.run_id.in_(run_ids))).one()
    return tuple(int(total) for total in found)


def trajectories(connection: sa.Connection, run_id: UUID) -> list[list[RunAttempt]]:
    """Every attempt of a run that counts (`metrics.COUNTED`), line by line
    (app.store.trajectory.attempt_lines), in the order of turns.
    """
    turns = (
        sa.func.array_agg(aggregate_order_by(column, attempt_lines.TURN), type_=sa.types.NullType())
        for column in (attempts.c.correct, attempts.c.label, attempts.c.speedup)
    )
    query = (
        sa.select(attempts.c.problem_id, *turns)
        .select_from(attempt_lines.joined(attempts))
        .where(attempts.c.run_id == run_id)
        .group_by(attempt_lines.KEY, attempts.c.problem_id)
        .order_by(attempt_lines.KEY)
    )
    return [
        list(map(RunAttempt, repeat(problem_id), passed, labels, speedups))
        for problem_id, passed, labels, speedups in connection.execute(query)
    ]


def levels(connection: sa.Connection) -> dict[UUID, int | None]:
    """Problem → level, of every problem."""
    return dict(connection.execute(sa.select(problems.c.problem_id, problems.c.level)).all())


def named(connection: sa.Connection, problem_ids: set[UUID]) -> dict[UUID, ProblemName]:
    """Name and level of problems."""
    query = sa.select(problems.c.problem_id, problems.c.name, problems.c.level).where(
        problems.c.problem_id.in_(list(problem_ids))
    )
    return {
        row.problem_id: ProblemName(name=row.name, level=row.level)
        for row in connection.execute(query)
    }


def summed(connection: sa.Connection, key: sa.Column[Any], keys: list[UUID]) -> dict[UUID, Counts]:
    """Key (a column of `attempt_counts`) → its counts."""
    totals = [
        sa.cast(sa.func.sum(attempt_counts.c[name]), sa.BigInteger).label(name) for name in COUNTS
    ]
    query = sa.select(key.label("key"), *totals).where(key.in_(keys)).group_by(key)
    return {
        row.pop("key"): Counts(**row)
        for row in (dict(one) for one in connection.execute(query).mappings())
    }


def _listed(connection: sa.Connection, query: sa.Select[Any]) -> list[RunRow]:
    found = connection.execute(query).mappings().all()
    counts = summed(connection, attempt_counts.c.run_id, [row["run_id"] for row in found])
    return [
        RunRow(
            **{**row, "settings": freeform.cut(row["settings"])},
            counts=counts.get(row["run_id"], Counts()),
        )
        for row in found
    ]
