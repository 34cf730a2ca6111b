"""STORE: the list of problems, the page of one, and levels by models.  Counts come
from roll-ups.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain import problem_check
from app.domain.evaluation import FLOOR_HEADROOM
from app.domain.evaluation_row import EvaluationRow
from app.store.browse import paging
from app.store.browse.runs import COUNTS, Counts, count_sorts, summed, summed_by
from app.store.dataset.export_sources import SAME_FAMILY_RULE
from app.store.evaluation import credited, evaluation_rows
from app.store.postgres import row_columns
from app.store.tables import (
    attempt_counts,
    attempts,
    evaluations,
    findings,
    problem_features,
    problems,
    runs,
    verdicts,
)

_key = sa.tuple_(
    problems.c.source_set,
    sa.func.coalesce(problems.c.level, -1),
    problems.c.name,
    problems.c.problem_id,
)
"""The order of the list; the same columns of another problem stand in for a cursor."""

TIMED_LATELY = 100
"""Latest attempts on a problem that say how long the reference takes, and whether
the problem is degenerate.
"""


@dataclass(frozen=True, kw_only=True)
class ProblemRow:
    """A line of the list of problems."""

    problem_id: UUID
    source_set: str
    name: str
    level: int | None
    counts: Counts
    best_speedup: float | None = None
    """Best credited one."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Reference time on one kind of device, over the latest attempts."""

    device_class: str
    device_name: str
    baseline: str
    evaluations: int
    median_us: float
    low_us: float
    high_us: float
    """Least and most."""
    floor_us: float | None
    """Shortest possible time, by the latest measurement."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A problem as submitted."""

    problem_id: UUID
    source_set: str
    name: str
    level: int | None
    entry_point: str
    reference: bytes
    reference_sha256: str
    family: str | None
    """None where it has not been computed yet."""
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Results:
    """Results of the attempts on a problem."""

    row: ProblemRow
    statuses: dict[str, int]
    """Status → attempts, answers without code included: the problem's difficulty."""
    baselines: tuple[Baseline, ...]
    degenerate: int
    """Number of latest evaluations with a verdict that finds the problem itself degenerate."""
    best: tuple[EvaluationRow, ...]
    """Evaluations with the highest credited speedups, fastest first."""
    latest: tuple[EvaluationRow, ...]
    """Newest first."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A level and a model."""

    level: int | None
    model: str
    counts: Counts


_sums = summed_by(attempt_counts.c.problem_id)
_COUNTED = problems.outerjoin(_sums, _sums.c.key == problems.c.problem_id)
_best = (
    sa.select(sa.func.max(attempts.c.speedup))
    .where(attempts.c.problem_id == problems.c.problem_id, credited.FASTEST)
    .correlate(problems)
    .scalar_subquery()
)

SORTS: dict[str, tuple[sa.ColumnElement[Any], bool]] = {
    "problem": (problems.c.name, False),
    "source_set": (problems.c.source_set, False),
    "level": (problems.c.level, False),
    **{name: (value, True) for name, value in count_sorts(_sums).items()},
    "best_speedup": (_best, False),
}
"""Order of the list → its value, and whether that needs the counts."""


def page(
    connection: sa.Connection,
    window: paging.Window[UUID],
    *,
    name: str = "",
    source_set: str = "",
    level: int | None = None,
) -> paging.Page[ProblemRow]:
    """Problems with `name` in their names, of a source set and level (empty and None: any), in an
    order of SORTS or, without one, by set, level and name.
    """
    conditions = _conditions(name, source_set, level)
    if not window.sort:
        return paging.walk(partial(_listed, connection, conditions), window)
    value, counted = SORTS[window.sort]
    order = paging.Order(value=value, key=problems.c.problem_id)
    query = (
        sa.select(problems.c.problem_id)
        .select_from(_COUNTED if counted else problems)
        .where(*conditions)
    )
    return order.page(connection, query, lambda ids: _of_ids(connection, ids), window)


def total(
    connection: sa.Connection, *, name: str = "", source_set: str = "", level: int | None = None
) -> paging.Total:
    """Number of problems that `page` lists."""
    return paging.total(
        connection, sa.select(problems.c.problem_id).where(*_conditions(name, source_set, level))
    )


def _conditions(name: str, source_set: str, level: int | None) -> list[sa.ColumnElement[bool]]:
    conditions = [problems.c.name.icontains(name, autoescape=True)] if name else []
    conditions += [problems.c.source_set == source_set] if source_set else []
    return conditions + ([problems.c.level == level] if level is not None else [])


def _of_ids(connection: sa.Connection, ids: list[UUID]) -> list[ProblemRow]:
    columns = (problems.c.problem_id, problems.c.source_set, problems.c.name, problems.c.level)
    found = connection.execute(sa.select(*columns).where(problems.c.problem_id.in_(ids))).mappings()
    named, numbers = {row["problem_id"]: row for row in found}, _numbers(connection, ids)
    return [ProblemRow(**named[each], **numbers[each]) for each in ids]


def choices(connection: sa.Connection) -> tuple[list[str], list[int]]:
    """Every source set and every level."""
    sets = connection.scalars(
        sa.select(problems.c.source_set).distinct().order_by(problems.c.source_set)
    )
    levels = (
        sa.select(problems.c.level)
        .where(problems.c.level.is_not(None))
        .distinct()
        .order_by(problems.c.level)
    )
    return list(sets), list(connection.scalars(levels))


def read(connection: sa.Connection, problem_id: UUID) -> Problem | None:
    """The problem of that id, if there is one."""
    query = (
        sa.select(*row_columns.of(Problem, problems, problem_features))
        .select_from(problems.outerjoin(problem_features, SAME_FAMILY_RULE))
        .where(problems.c.problem_id == problem_id)
    )
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else Problem(**row)


def results(
    connection: sa.Connection, problem: Problem, *, best: int = 10, latest: int = 20
) -> Results:
    """Results of the attempts on the problem."""
    problem_id = problem.problem_id
    numbers = _numbers(connection, [problem_id])[problem_id]
    return Results(
        row=ProblemRow(
            problem_id=problem_id,
            source_set=problem.source_set,
            name=problem.name,
            level=problem.level,
            **numbers,
        ),
        statuses=_statuses(connection, problem_id),
        baselines=_baselines(connection, problem_id),
        degenerate=_degenerate(connection, problem_id),
        best=_chosen(connection, problem_id, attempts.c.speedup, best, credited.FASTEST),
        latest=_chosen(
            connection,
            problem_id,
            attempts.c.created_at,
            latest,
            attempts.c.evaluation_id.is_not(None),
        ),
    )


def heat_map(connection: sa.Connection, *, source_set: str = "") -> list[Cell]:
    """Counts of every level and model, over attempts that belong to a run of a named model."""
    totals = [
        sa.cast(sa.func.sum(attempt_counts.c[name]), sa.BigInteger).label(name) for name in COUNTS
    ]
    query = (
        sa.select(problems.c.level, runs.c.model, *totals)
        .select_from(
            attempt_counts.join(runs, runs.c.run_id == attempt_counts.c.run_id).join(
                problems, problems.c.problem_id == attempt_counts.c.problem_id
            )
        )
        .where(runs.c.model.is_not(None))
        .group_by(problems.c.level, runs.c.model)
        .order_by(problems.c.level.nulls_last(), runs.c.model)
    )
    if source_set:
        query = query.where(problems.c.source_set == source_set)
    found = (dict(row) for row in connection.execute(query).mappings())
    return [
        Cell(level=row.pop("level"), model=row.pop("model"), counts=Counts(**row)) for row in found
    ]


def _listed(
    connection: sa.Connection,
    conditions: list[sa.ColumnElement[bool]],
    cursor: UUID | None,
    limit: int,
    backwards: bool,
) -> list[ProblemRow]:
    query = sa.select(
        problems.c.problem_id, problems.c.source_set, problems.c.name, problems.c.level
    ).limit(limit)
    query = query.order_by(
        *(column.desc() if backwards else column.asc() for column in _key.clauses)
    )
    query = query.where(*conditions)
    if cursor is not None:
        other = sa.alias(problems)
        bound = (
            sa.select(
                other.c.source_set,
                sa.func.coalesce(other.c.level, -1),
                other.c.name,
                other.c.problem_id,
            )
            .where(other.c.problem_id == cursor)
            .scalar_subquery()
        )
        query = query.where(_key < bound if backwards else _key > bound)
    found = connection.execute(query).mappings().all()
    numbers = _numbers(connection, [row["problem_id"] for row in found])
    return [ProblemRow(**row, **numbers[row["problem_id"]]) for row in found]


def _numbers(connection: sa.Connection, problem_ids: list[UUID]) -> dict[UUID, dict[str, Any]]:
    """Problem → counts and best_speedup."""
    counts = summed(connection, attempt_counts.c.problem_id, problem_ids)
    query = sa.select(problems.c.problem_id, _best.label("best")).where(
        problems.c.problem_id.in_(problem_ids)
    )
    return {
        row.problem_id: {"counts": counts.get(row.problem_id, Counts()), "best_speedup": row.best}
        for row in connection.execute(query)
    }


def _statuses(connection: sa.Connection, problem_id: UUID) -> dict[str, int]:
    key = attempts.c.status
    query = sa.select(key, sa.func.count()).where(attempts.c.problem_id == problem_id).group_by(key)
    return dict(connection.execute(query.order_by(sa.func.count().desc())).all())


def _baselines(connection: sa.Connection, problem_id: UUID) -> tuple[Baseline, ...]:
    latest = (
        sa.select(attempts.c.evaluation_id)
        .where(attempts.c.problem_id == problem_id, attempts.c.speedup.is_not(None))
        .order_by(attempts.c.created_at.desc())
        .limit(TIMED_LATELY)
    )
    e = evaluations.c
    keys = (e.device_class, e.device_name, e.baseline)
    median = sa.func.percentile_cont(0.5).within_group(e.reference_us)
    floor = FLOOR_HEADROOM * sa.func.max(e.measurement["timing"]["floor_us"].as_float())
    query = (
        sa.select(
            *keys,
            sa.func.count().label("evaluations"),
            median.label("median_us"),
            sa.func.min(e.reference_us).label("low_us"),
            sa.func.max(e.reference_us).label("high_us"),
            floor.label("floor_us"),
        )
        .where(e.evaluation_id.in_(latest), e.reference_us.is_not(None))
        .group_by(*keys)
        .order_by(*keys)
    )
    return tuple(Baseline(**row) for row in connection.execute(query).mappings())


def _degenerate(connection: sa.Connection, problem_id: UUID) -> int:
    """The latest attempts tell: every evaluation of a degenerate problem finds it so."""
    latest = (
        sa.select(attempts.c.evaluation_id)
        .where(attempts.c.problem_id == problem_id, attempts.c.evaluation_id.is_not(None))
        .order_by(attempts.c.created_at.desc())
        .limit(TIMED_LATELY)
    )
    query = (
        sa.select(sa.func.count(sa.distinct(verdicts.c.evaluation_id)))
        .select_from(findings.join(verdicts, verdicts.c.verdict_id == findings.c.verdict_id))
        .where(
            findings.c.detector == problem_check.DEGENERATE,
            verdicts.c.is_current,
            verdicts.c.evaluation_id.in_(latest),
        )
    )
    return int(connection.execute(query).scalar_one())


def _chosen(
    connection: sa.Connection,
    problem_id: UUID,
    key: sa.Column[Any],
    limit: int,
    condition: sa.ColumnElement[bool],
) -> tuple[EvaluationRow, ...]:
    """Evaluations of the attempts with the highest keys, each once."""
    own = attempts.c.evaluation_id
    highest = sa.select(own).where(attempts.c.problem_id == problem_id, condition)
    some = connection.scalars(highest.order_by(key.desc(), own).limit(2 * limit)).all()
    wanted = list(dict.fromkeys(some))[:limit]
    if len(wanted) < limit and len(some) == 2 * limit:  # many turns share few evaluations
        by_value = highest.group_by(own).order_by(sa.func.max(key).desc(), own)
        wanted = list(connection.scalars(by_value.limit(limit)))
    found = evaluation_rows.matching(
        connection, evaluation_rows.COLUMNS["evaluation_id"].in_(wanted), limit
    )
    return tuple(sorted(found, key=lambda row: wanted.index(row.evaluation_id)))
