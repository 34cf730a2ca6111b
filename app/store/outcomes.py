"""STORE: what figures over many evaluations are made of: one outcome an attempt, in the order of its trajectory."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from app.domain.metrics import Outcome
from app.domain.verdict import Label
from app.domain.where import Expression
from app.store import rows, where
from app.store.tables import evaluations, trajectories, turns


@dataclass(frozen=True, kw_only=True)
class Attempted:
    """One valid and judged attempt."""

    run: str | None
    model: str | None
    source_set: str
    level: int | None
    trajectory_id: str | None
    turn: int | None
    passed: bool
    """Every call was right, whatever the verdict."""
    label: Label
    outcome: Outcome


def attempted(connection: sa.Connection, expression: Expression) -> list[Attempted]:
    """Every attempt that a filter finds and that says something of its candidate; a hack is not correct."""
    names = (
        "run",
        "model",
        "source_set",
        "level",
        "trajectory_id",
        "turn",
        "correct",
        "verdict",
        "speedup",
        "problem_id",
    )
    query = (
        sa.select(*(rows.COLUMNS[name].label(name) for name in names))
        .select_from(rows.JOINED)
        .where(where.compile(expression), evaluations.c.valid, rows.LABEL.is_not(None))
        .order_by(trajectories.c.trajectory_id.nulls_last(), turns.c.turn_index, *rows.ORDER)
    )
    return [_attempted(record) for record in connection.execute(query, execution_options={"yield_per": 5_000})]


def _attempted(record: sa.Row[tuple[object, ...]]) -> Attempted:
    correct = record.correct and record.verdict != Label.HACK
    return Attempted(
        run=record.run,
        model=record.model,
        source_set=record.source_set,
        level=record.level,
        trajectory_id=str(record.trajectory_id) if record.trajectory_id else None,
        turn=record.turn,
        passed=record.correct,
        label=Label(record.verdict),
        outcome=Outcome(problem=str(record.problem_id), correct=correct, speedup=record.speedup if correct else None),
    )
