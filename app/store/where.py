"""STORE: a filter as SQL over the joined rows of `app.store.rows`, every value a bound parameter.

SQL knows a third truth value, the filter language does not (`app.domain.where`): NULL counts as false, which a
WHERE clause does by itself and `not` does here."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from app.domain.where import And, Compare, Everything, Expression, Not, OneOf, Or, Value
from app.store import rows
from app.store.tables import findings, verdicts

_RENAMED = {"gpu": "device_class", "device": "device_name"}
"""Filter names that differ from the row's."""


def compile(expression: Expression) -> sa.ColumnElement[bool]:  # noqa: A001 (called as where.compile)
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
            return rows.labelled([value])
        case OneOf(field="verdict", values=values):
            return rows.labelled([str(value) for value in values])
        case Compare(field=field, operator="=", value=True):
            return _column(field)
        case Compare(field=field, operator=operator, value=value):
            return _comparison(_column(field), operator, value)
        case OneOf(field=field, values=values):
            return _column(field).in_(values)


def _column(field: str) -> sa.ColumnElement[Any]:
    return rows.COLUMNS[_RENAMED.get(field, field)]


def _comparison(column: sa.ColumnElement[Any], operator: str, value: Value) -> sa.ColumnElement[bool]:
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
    """An evaluation has any number of findings: `=` and `~` ask for one that fits, `!=` for none that does."""
    if value is None:
        return _found(sa.true()) if operator == "!=" else sa.not_(_found(sa.true()))
    if operator == "!=":
        return sa.not_(_found(findings.c.detector == value))
    return _found(_comparison(findings.c.detector, operator, value))


def _found(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return sa.exists().where(findings.c.verdict_id == verdicts.c.verdict_id, condition)
