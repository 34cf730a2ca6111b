"""STORE: the evaluations that a filter can match, where they are known to be few.

PostgreSQL walks an order by its index, which takes seconds where next to nothing matches, and joins
all tables for each row.  Of a filter that names problems, runs, findings, or a verdict beside a
status, roll-ups and small tables say how many evaluations there can be.  Where they are few, their
ids are read first, put in the order, and joined some at a time until a page is full
(`filter_walk`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain.evaluation import Status
from app.domain.filter_language import Compare, Expression, Not, OneOf, names
from app.domain.verdict import Label
from app.store.filter import filter_sql
from app.store.tables import (
    attempt_counts,
    attempts,
    evaluations,
    hourly_counts,
    jobs,
    problems,
    runs,
)

RARE = 20_000
"""Evaluations up to which they are all looked up by key; of more, the newest rows have some."""
RARE_RUNS = 100_000
"""The same of evaluations of runs, which lie together in time: the newest rows may
have none of them.
"""
FEW = 2_000
"""The same of evaluations that are not in one place: with a finding alone, or of a
verdict and a status.
"""
RARE_VERDICTS = 60_000
"""The same of evaluations of a verdict, beside a part that leaves few by itself: both together
may leave none.
"""
_OF_PROBLEM = frozenset({"problem", "problem_id", "level", "source_set"})
_OF_RUN = frozenset({"run", "model"})
"""Fields that are columns of a small table."""


@dataclass(frozen=True, kw_only=True)
class Narrowed:
    """A filter, and known facts about its rows."""

    condition: sa.ColumnElement[bool]
    """Condition on `evaluation_rows.JOINED`."""
    among: tuple[sa.Select[Any], ...]
    """Ids of evaluations: each select holds all that match.  Empty: they are not
    known to be few.
    """
    here: tuple[sa.ColumnElement[bool], ...]
    """Conditions on evaluations alone that the filter implies."""
    places: dict[object, Sequence[tuple[Any, UUID]]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """Walk (`filter_walk`) → places of `among` in its order, once read: rows and facets of a page
    walk the same way.
    """

    @property
    def is_never(self) -> bool:
        """Nothing matches."""
        return isinstance(self.condition, sa.False_)


def narrowed(connection: sa.Connection, expression: Expression) -> Narrowed:
    """The filter with the ids of the few evaluations that it can match."""
    parts = filter_sql.parts_of(expression)
    if _is_contradiction(parts):
        return Narrowed(condition=sa.false(), among=(), here=())
    found = [
        _of_problems_and_runs(connection, parts),
        _of_verdict(connection, parts),
        _of_findings(connection, parts),
    ]
    if any(isinstance(each, sa.False_) for each in found):
        return Narrowed(condition=sa.false(), among=(), here=())
    among = [each for each in found if isinstance(each, sa.Select)]
    if among and isinstance(found[1], sa.True_):
        among += _beside_others(connection, parts)
    condition = sa.and_(filter_sql.compile(expression), *filter_sql.implied(expression))
    here = filter_sql.on_evaluations(expression)
    if any(isinstance(part, Compare) and _is_credit(part) for part in parts):
        here.append(filter_sql.credited())
    return Narrowed(condition=condition, among=tuple(among), here=tuple(here))


def _is_contradiction(parts: Sequence[Expression]) -> bool:
    """True if the filter asks for credit and for rows without: PostgreSQL would look
    for it in every row.
    """
    credited = {part.field for part in parts if isinstance(part, Compare) and _is_credit(part)}
    return bool(credited) and any(part in _NO_CREDIT for part in parts)


def _is_credit(part: Compare) -> bool:
    if part.field == "correct":
        return part.operator == "=" and part.value is True
    return part.field in filter_sql.MEASURED and part.operator != "!=" and part.value is not None


_NO_CREDIT = (
    Compare(field="verdict", operator="=", value=str(Label.HACK)),
    Not(operand=Compare(field="correct", operator="=", value=True)),
    Compare(field="correct", operator="=", value=False),
    Compare(field="correct", operator="!=", value=True),
    *(
        Compare(field="status", operator="=", value=str(status))
        for status in Status
        if status is not Status.PASSED
    ),
)


def _of_problems_and_runs(
    connection: sa.Connection, parts: Sequence[Expression]
) -> sa.Select[Any] | sa.ColumnElement[bool]:
    """The evaluations of the problems and runs that a filter names, where their
    attempts are few.
    """
    of_problem = [part for part in parts if names(part) and names(part) <= _OF_PROBLEM]
    of_run = [part for part in parts if _names_runs(part)]
    named: dict[str, list[UUID]] = {}
    if of_problem:
        asked = sa.select(problems.c.problem_id).where(*map(filter_sql.compile, of_problem))
        named["problem_id"] = list(connection.scalars(asked))
    if of_run:
        named["run_id"] = list(
            connection.scalars(sa.select(runs.c.run_id).where(*map(filter_sql.compile, of_run)))
        )
    if not all(named.values()):
        return sa.false()
    counted = sa.select(sa.func.sum(attempt_counts.c.attempts)).where(*_of(attempt_counts, named))
    if not named or (connection.scalar(counted) or 0) > (RARE_RUNS if of_run else RARE):
        return sa.true()
    if of_run:
        found = sa.select(attempts.c.evaluation_id)
        return found.where(attempts.c.evaluation_id.is_not(None), *_of(attempts, named))
    measured, asked_for = evaluations.alias("of_problem"), jobs.alias("asked_for")
    found = sa.select(measured.c.evaluation_id).join(
        asked_for, asked_for.c.job_id == measured.c.job_id
    )
    return found.where(*_of(asked_for, named))


def _of(table: sa.FromClause, named: dict[str, list[UUID]]) -> list[sa.ColumnElement[bool]]:
    return [
        table.c[column] == sa.any_(sa.literal(ids, ARRAY(sa.Uuid))) for column, ids in named.items()
    ]


def _names_runs(part: Expression) -> bool:
    """The part holds for attempts of some runs only, never for one without a run."""
    match part:
        case Compare(field=field, operator="=" | "~", value=value):
            return field in _OF_RUN and value is not None
        case OneOf(field=field):
            return field in _OF_RUN
    return False


def _of_findings(
    connection: sa.Connection, parts: Sequence[Expression]
) -> sa.Select[Any] | sa.ColumnElement[bool]:
    """The evaluations with a finding, where they are few; beside another part they may be more,
    because both together may be rare.
    """
    most = FEW if len(parts) == 1 else RARE
    for part in parts:
        found = filter_sql.by_index(part) if names(part) == {"finding"} else None
        if found is None:
            continue
        read = connection.scalars(found.limit(most + 1)).all()
        if len(read) <= most:
            return _these(read) if read else sa.false()
    return sa.true()


def _these(evaluation_ids: Sequence[UUID]) -> sa.Select[Any]:
    """Ids that were read: each reading of findings looks at their verdicts, in random places."""
    listed = sa.func.unnest(sa.literal(list(evaluation_ids), ARRAY(sa.Uuid)))
    return sa.select(listed.label("evaluation_id"))


def _of_verdict(
    connection: sa.Connection, parts: Sequence[Expression]
) -> sa.Select[Any] | sa.ColumnElement[bool]:
    """The planner takes verdict and status for independent: of hacks that are incorrect it expects
    many, and walks all evaluations to find none.
    """
    asked = {
        part.field: str(part.value)
        for part in parts
        if isinstance(part, Compare)
        and part.operator == "="
        and part.field in ("status", "verdict")
    }
    if len(asked) < 2:
        return sa.true()
    label, status = asked["verdict"], asked["status"]
    number = _number_of(connection, label, hourly_counts.c.status == status)
    if not number:
        return sa.false()
    if number > FEW or label == Label.CLEAN:
        return sa.true()
    return filter_sql.judged(Label(label), status)


def _beside_others(connection: sa.Connection, parts: Sequence[Expression]) -> list[sa.Select[Any]]:
    """The evaluations of the verdict that a filter asks for beside other parts."""
    labels = [
        Label(str(part.value))
        for part in parts
        if isinstance(part, Compare) and part.field == "verdict" and part.operator == "="
    ]
    return [
        filter_sql.judged(label, None)
        for label in labels
        if label != Label.CLEAN and _number_of(connection, label) <= RARE_VERDICTS
    ]


def _number_of(
    connection: sa.Connection, label: str, condition: sa.ColumnElement[bool] | None = None
) -> int:
    """Number of evaluations of an effective verdict, from the roll-ups."""
    c = hourly_counts.c
    effective = sa.case((c.human_verdict != "", c.human_verdict), else_=c.label)
    counted = sa.select(sa.func.sum(c.evaluations)).where(effective == label)
    return int(connection.scalar(counted if condition is None else counted.where(condition)) or 0)
