"""STORE: models against levels and problems: counts from roll-ups, best credited
speedups by index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain import metrics
from app.domain.evaluation import FLOOR_HEADROOM
from app.store.browse.runs import COUNTS, Counts
from app.store.evaluation import credited
from app.store.tables import attempt_counts, attempts, evaluations, problems, runs


@dataclass(frozen=True, kw_only=True)
class Best:
    """Fastest credited attempt of a model on a problem."""

    speedup: float
    evaluation_id: UUID
    of_light: float | None
    """Least time that the device's bandwidth allows, over the time taken; None where
    either was not measured.
    """


def totals(
    connection: sa.Connection, *, source_set: str = "", level: int | None = None
) -> dict[str, Counts]:
    """Model → counts over the attempts of its runs."""
    query = _counted(runs.c.model).where(*_conditions(source_set, level))
    return {
        row.pop("model"): Counts(**row) for row in _rows(connection, query.group_by(runs.c.model))
    }


def by_problem(
    connection: sa.Connection, problem_ids: list[UUID]
) -> dict[tuple[UUID, str], Counts]:
    """Problem and model → counts."""
    keys = (attempt_counts.c.problem_id, runs.c.model)
    query = _counted(*keys).where(attempt_counts.c.problem_id.in_(problem_ids)).group_by(*keys)
    return {
        (row.pop("problem_id"), row.pop("model")): Counts(**row) for row in _rows(connection, query)
    }


def fastest(
    connection: sa.Connection, pairs: list[tuple[UUID, str]]
) -> dict[tuple[UUID, str], Best]:
    """The fastest credited attempt of each pair of problem and model, found along the index
    of speedups.

    A pair without one costs a walk over all credited attempts of its problem: ask for those
    that have one (`Counts.timed`).
    """
    listed = sa.func.unnest(
        sa.literal([problem for problem, _ in pairs], ARRAY(sa.Uuid)),
        sa.literal([model for _, model in pairs], ARRAY(sa.Text)),
    )
    wanted = listed.table_valued("problem_id", "model", name="wanted").render_derived()
    best = (
        sa.select(attempts.c.speedup, attempts.c.evaluation_id)
        .join(runs, runs.c.run_id == attempts.c.run_id)
        .where(attempts.c.problem_id == wanted.c.problem_id, runs.c.model == wanted.c.model)
        .where(credited.FASTEST)
        .order_by(attempts.c.speedup.desc())
        .limit(1)
        .correlate(wanted)
        .lateral()
    )
    query = sa.select(
        wanted.c.problem_id, wanted.c.model, best.c.speedup, best.c.evaluation_id
    ).select_from(wanted.join(best, sa.true()))
    found = connection.execute(query).all()
    shares = _shares_of_light(connection, [row.evaluation_id for row in found])
    return {
        (row.problem_id, row.model): Best(
            speedup=row.speedup,
            evaluation_id=row.evaluation_id,
            of_light=shares.get(row.evaluation_id),
        )
        for row in found
    }


def _shares_of_light(connection: sa.Connection, evaluation_ids: list[UUID]) -> dict[UUID, float]:
    """Evaluation → its share of the speed of light."""
    e = evaluations.c
    floor = e.measurement["timing"]["floor_us"].as_float()
    query = sa.select(e.evaluation_id, floor.label("floor_us"), e.candidate_us).where(
        e.evaluation_id.in_(evaluation_ids), floor > 0, e.candidate_us > 0
    )
    return {
        row.evaluation_id: metrics.speed_of_light_share(
            FLOOR_HEADROOM * row.floor_us, row.candidate_us
        )
        for row in connection.execute(query)
    }


def _counted(*keys: sa.ColumnElement[Any]) -> sa.Select[Any]:
    counts = [
        sa.cast(sa.func.sum(attempt_counts.c[name]), sa.BigInteger).label(name) for name in COUNTS
    ]
    joined = attempt_counts.join(runs, runs.c.run_id == attempt_counts.c.run_id).join(
        problems, problems.c.problem_id == attempt_counts.c.problem_id
    )
    return sa.select(*keys, *counts).select_from(joined).where(runs.c.model.is_not(None))


def _conditions(source_set: str, level: int | None) -> list[sa.ColumnElement[bool]]:
    found = [problems.c.source_set == source_set] if source_set else []
    return found + ([problems.c.level == level] if level is not None else [])


def _rows(connection: sa.Connection, query: sa.Select[Any]) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(query).mappings()]
