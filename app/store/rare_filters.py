"""STORE: the condition of a filter, narrowed by roll-ups and small tables: problems and runs with few attempts are
looked up by key, a verdict that is rare beside a status through the verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain import filter_language
from app.domain.filter_language import And, Compare, Expression, OneOf
from app.domain.verdict import Label
from app.store import filter_sql
from app.store.tables import attempt_counts, attempts, evaluations, hourly_counts, jobs, problems, runs

RARE = 20_000
"""Attempts up to which they are all looked up by key; of more, the newest rows have some."""
RARE_VERDICT = 2_000
"""Evaluations of a verdict and a status up to which they are all looked up by key."""

_OF_PROBLEM = frozenset({"problem", "problem_id", "level", "source_set"})
_OF_RUN = frozenset({"run", "model"})
"""Fields that are columns of a small table."""


def condition(connection: sa.Connection, expression: Expression) -> sa.ColumnElement[bool]:
    """`filter_sql.indexed`, and the conditions that its parts imply together."""
    parts = expression.operands if isinstance(expression, And) else (expression,)
    return sa.and_(
        filter_sql.indexed(expression), _of_problems_and_runs(connection, parts), _of_verdict(connection, parts)
    )


def _of_problems_and_runs(connection: sa.Connection, parts: Sequence[Expression]) -> sa.ColumnElement[bool]:
    """The evaluations of the problems and runs that a filter names, where their attempts are few."""
    of_problem = [part for part in parts if filter_language.names(part) and filter_language.names(part) <= _OF_PROBLEM]
    of_run = [part for part in parts if _names_runs(part)]
    named: dict[str, list[UUID]] = {}
    if of_problem:
        asked = sa.select(problems.c.problem_id).where(*map(filter_sql.compile, of_problem))
        named["problem_id"] = list(connection.scalars(asked))
    if of_run:
        named["run_id"] = list(connection.scalars(sa.select(runs.c.run_id).where(*map(filter_sql.compile, of_run))))
    if not all(named.values()):
        return sa.false()
    counted = sa.select(sa.func.sum(attempt_counts.c.attempts)).where(*_of(attempt_counts, named))
    if not named or (connection.scalar(counted) or 0) > RARE:
        return sa.true()
    if of_run:
        found = sa.select(attempts.c.evaluation_id)
        return filter_sql.among(found.where(attempts.c.evaluation_id.is_not(None), *_of(attempts, named)))
    measured, asked_for = evaluations.alias("of_problem"), jobs.alias("asked_for")
    found = sa.select(measured.c.evaluation_id).join(asked_for, asked_for.c.job_id == measured.c.job_id)
    return filter_sql.among(found.where(*_of(asked_for, named)))


def _of(table: sa.FromClause, named: dict[str, list[UUID]]) -> list[sa.ColumnElement[bool]]:
    return [table.c[column] == sa.any_(sa.literal(ids, ARRAY(sa.Uuid))) for column, ids in named.items()]


def _names_runs(part: Expression) -> bool:
    """The part holds for attempts of some runs only, never for one without a run."""
    match part:
        case Compare(field=field, operator="=" | "~", value=value):
            return field in _OF_RUN and value is not None
        case OneOf(field=field):
            return field in _OF_RUN
    return False


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
