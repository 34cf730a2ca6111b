"""STORE: the rule of `app.domain.verdict.is_credited` in SQL."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from app.domain.verdict import Label
from app.store.tables import attempts


def is_credited(
    correct: sa.ColumnElement[bool], label: sa.ColumnElement[Any]
) -> sa.ColumnElement[bool]:
    """SQL condition; never NULL, even without a label."""
    return sa.and_(correct, sa.func.coalesce(label != Label.HACK, sa.false()))


def is_credited_text(correct: str, label: str) -> str:
    """The same as text, for statements that are written by hand: of two expressions of SQL."""
    return f"({correct} AND coalesce({label} <> '{Label.HACK}', false))"


FASTEST = sa.and_(
    attempts.c.speedup.is_not(None), attempts.c.correct, attempts.c.label != Label.HACK
)
"""Condition of an attempt with a credited speedup, in the words of the index of the
fastest, so that PostgreSQL uses it.
"""
