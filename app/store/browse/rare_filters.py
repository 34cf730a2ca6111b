"""STORE: the condition of a filter, narrowed by the roll-ups: a model with few attempts is found through its runs, a
verdict that is rare beside a status through the verdicts."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from app.domain.filter_language import And, Compare, Expression, OneOf
from app.domain.verdict import Label
from app.store import filter_sql
from app.store.tables import attempt_counts, hourly_counts, runs

RARE = 20_000
"""Attempts up to which they are all looked up by key; of more, the newest rows have some."""
RARE_VERDICT = 2_000
"""Evaluations of a verdict and a status up to which they are all looked up by key."""


def condition(connection: sa.Connection, expression: Expression) -> sa.ColumnElement[bool]:
    """`filter_sql.indexed`, and for each model that is asked for and rare, the names of its runs."""
    parts = expression.operands if isinstance(expression, And) else (expression,)
    models = [
        str(part.value)
        for part in parts
        if isinstance(part, Compare) and part.field == "model" and part.operator == "=" and part.value is not None
    ]
    narrower = [_of_model(connection, model) for model in models]
    return sa.and_(filter_sql.indexed(expression), *narrower, _of_verdict(connection, parts))


def _of_model(connection: sa.Connection, model: str) -> sa.ColumnElement[bool]:
    named = connection.execute(sa.select(runs.c.run_id, runs.c.name).where(runs.c.model == model)).all()
    if not named:
        return sa.false()
    counted = sa.select(sa.func.sum(attempt_counts.c.attempts)).where(
        attempt_counts.c.run_id.in_([row.run_id for row in named])
    )
    if (connection.scalar(counted) or 0) > RARE:
        return sa.true()
    return filter_sql.indexed(OneOf(field="run", values=tuple(row.name for row in named)))


def _of_verdict(connection: sa.Connection, parts: Sequence[Expression]) -> sa.ColumnElement[bool]:
    """The planner takes verdict and status for independent: of hacks that are incorrect it expects many, and walks all
    evaluations to find none."""
    asked = {
        part.field: str(part.value)
        for part in parts
        if isinstance(part, Compare) and part.operator == "=" and part.field in ("status", "verdict")
    }
    if len(asked) < 2:
        return sa.true()
    label, status, c = asked["verdict"], asked["status"], hourly_counts.c
    counted = sa.select(sa.func.sum(c.evaluations)).where(
        c.status == status, sa.case((c.human_verdict != "", c.human_verdict), else_=c.label) == label
    )
    number = connection.scalar(counted) or 0
    if not number:
        return sa.false()
    if number > RARE_VERDICT or label == Label.CLEAN:
        return sa.true()
    return filter_sql.judged(Label(label), status)
