"""STORE: a filter as SQL over the joined rows of `app.store.evaluation.evaluation_rows`, every
value a bound parameter.

SQL knows a third truth value, the filter language does not (`app.domain.filter_language`): NULL
counts as false, which a WHERE clause does by itself and `not` does here.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from app.domain.filter_fields import Value
from app.domain.filter_language import And, Compare, Everything, Expression, Not, OneOf, Or, names
from app.domain.verdict import Label
from app.store.evaluation import evaluation_rows
from app.store.tables import attempts, evaluations, findings, runs, verdicts

_RENAMED = {"gpu": "device_class", "device": "device_name"}
"""Filter names that differ from the row's."""


def compile(  # noqa: A001 (called as where.compile)
    expression: Expression,
) -> sa.ColumnElement[bool]:
    """The condition on `rows.JOINED`."""
    match expression:
        case Everything():
            return sa.true()
        case And(operands=operands):
            return sa.and_(*(compile(operand) for operand in operands))
        case Or(operands=operands):
            return sa.or_(*(compile(operand) for operand in operands))
        case Not(operand=operand):
            return sa.not_(sa.func.coalesce(compile(operand), sa.false()))
        case Compare(field="finding", operator=operator, value=value):
            return _finding(operator, value)
        case OneOf(field="finding", values=values):
            return _found(findings.c.detector.in_(values))
        case Compare(field="verdict", operator="=", value=str(value)):
            return evaluation_rows.labelled([value])
        case OneOf(field="verdict", values=values):
            return evaluation_rows.labelled([str(value) for value in values])
        case Compare(field="correct", operator="=", value=True):
            return sa.and_(
                evaluations.c.correct, evaluation_rows.labelled([Label.CLEAN, Label.SUSPECT])
            )
        case Compare(field=field, operator="=", value=True):
            return _column(field)
        case Compare(field=field, operator=operator, value=value):
            return _comparison(_column(field), operator, value)
        case OneOf(field=field, values=values):
            return _column(field).in_(values)


def indexed(expression: Expression) -> sa.ColumnElement[bool]:
    """The condition over `evaluation_rows.JOINED`, with those conditions that it implies
    for evaluations alone, so that indexes find the few rows of a rare filter.  Not for
    attempts without an evaluation.
    """
    looked_up = [
        among(each) for part in parts_of(expression) if (each := by_index(part)) is not None
    ]
    return sa.and_(compile(expression), *implied(expression), *looked_up)


def parts_of(expression: Expression) -> tuple[Expression, ...]:
    """Conditions that all have to hold."""
    return expression.operands if isinstance(expression, And) else (expression,)


MEASURED = {
    name: evaluations.c[name]
    for name in ("speedup", "speedup_ci_low", "speedup_ci_high", "device_speedup")
}
_OF_EVALUATION = frozenset(
    [
        "status",
        "valid",
        "compiled",
        "reviewed",
        "gpu",
        "device",
        "baseline",
        "measured_speedup",
        "reference_us",
        "candidate_us",
        "coverage_time",
        "coverage_count",
        "created_at",
        "evaluation_id",
    ]
)
"""Fields that are columns of the table of evaluations."""
_of_run, _named_run = attempts.alias("of_run"), runs.alias("named_run")


def implied(expression: Expression) -> list[sa.ColumnElement[bool]]:
    """Conditions on measured values that credited ones imply: indexes have the measured ones."""
    return [
        _comparison(MEASURED[part.field], part.operator, part.value)
        for part in parts_of(expression)
        if isinstance(part, Compare)
        and part.field in MEASURED
        and part.operator != "!="
        and part.value is not None
    ]


def on_evaluations(expression: Expression) -> list[sa.ColumnElement[bool]]:
    """Conditions on the table of evaluations alone that the filter implies."""
    own = [part for part in parts_of(expression) if names(part) and names(part) <= _OF_EVALUATION]
    return [*implied(expression), *map(compile, own)]


def by_index(part: Expression) -> sa.Select[Any] | None:
    """Ids of the evaluations of a part that asks for findings or a run, by the
    indexes of these tables; else None.
    """
    match part:
        case Compare(field="finding", operator="=" | "~" as operator, value=str(value)):
            return _with_finding(_comparison(findings.c.detector, operator, value))
        case OneOf(field="finding", values=values):
            return _with_finding(findings.c.detector.in_(values))
        case Compare(field="run", operator="=", value=str(value)):
            return _in_run(_named_run.c.name == value)
        case OneOf(field="run", values=values):
            return _in_run(_named_run.c.name.in_(values))
    return None


def among(evaluation_ids: sa.Select[Any]) -> sa.ColumnElement[bool]:
    """Looked up by key: of an array PostgreSQL expects few rows, of a subquery it
    plans to read the whole table.
    """
    return evaluations.c.evaluation_id == sa.any_(sa.func.array(evaluation_ids.scalar_subquery()))


def _with_finding(condition: sa.ColumnElement[bool]) -> sa.Select[Any]:
    judged = verdicts.alias("judged")
    query = sa.select(judged.c.evaluation_id).join(
        findings, findings.c.verdict_id == judged.c.verdict_id
    )
    return query.where(judged.c.is_current, condition)


def credited() -> sa.ColumnElement[bool]:
    """Condition on evaluations that every credited one meets: the detectors' verdict is no hack,
    or a person decided.
    """
    own = verdicts.alias("credited")
    automatic = sa.exists().where(
        own.c.evaluation_id == evaluations.c.evaluation_id,
        own.c.is_current,
        own.c.label != Label.HACK,
    )
    return sa.or_(evaluations.c.human_verdict.is_not(None), automatic)


def judged(label: Label, status: str | None) -> sa.Select[Any]:
    """Ids of evaluations of a verdict other than `clean`, of a status or of any, by the
    indexes of verdicts that are few.
    """
    of, own = evaluations.alias("judged_evaluation"), verdicts.alias("judged")
    of_status = sa.true() if status is None else of.c.status == status
    automatic = (
        sa.select(own.c.evaluation_id)
        .join(of, of.c.evaluation_id == own.c.evaluation_id)
        .where(
            own.c.is_current,
            own.c.label != Label.CLEAN,
            own.c.label == label,
            of_status,
        )
    )
    human = sa.select(of.c.evaluation_id).where(of.c.human_verdict == label, of_status)
    either = automatic.union(human).subquery()
    return sa.select(either.c.evaluation_id)


def _in_run(condition: sa.ColumnElement[bool]) -> sa.Select[Any]:
    query = sa.select(_of_run.c.evaluation_id).join(
        _named_run, _named_run.c.run_id == _of_run.c.run_id
    )
    return query.where(_of_run.c.evaluation_id.is_not(None), condition)


def _column(field: str) -> sa.ColumnElement[Any]:
    return evaluation_rows.COLUMNS[_RENAMED.get(field, field)]


def _comparison(
    column: sa.ColumnElement[Any], operator: str, value: Value
) -> sa.ColumnElement[bool]:
    match operator:
        case "=":
            return column.is_(None) if value is None else column == value
        case "!=":
            return column.is_not(None) if value is None else column.is_distinct_from(value)
        case "<":
            return column < value
        case "<=":
            return column <= value
        case ">":
            return column > value
        case ">=":
            return column >= value
        case "~":
            return column.icontains(value, autoescape=True)
    raise AssertionError(f"operator {operator!r} is not in the language")


def _finding(operator: str, value: Value) -> sa.ColumnElement[bool]:
    """An evaluation has any number of findings: `=` and `~` ask for one that fits,
    `!=` for none that does.
    """
    if value is None:
        return _found(sa.true()) if operator == "!=" else sa.not_(_found(sa.true()))
    if operator == "!=":
        return sa.not_(_found(findings.c.detector == value))
    return _found(_comparison(findings.c.detector, operator, value))


def _found(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return sa.exists().where(findings.c.verdict_id == verdicts.c.verdict_id, condition)
