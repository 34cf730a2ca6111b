"""STORE: moments by the database's clock, from the beginning of the transaction."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa


def ahead(seconds: float | sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """The moment so many seconds from now."""
    return sa.func.now() + _interval(seconds)


def ago(seconds: float) -> sa.ColumnElement[Any]:
    """The moment so many seconds before now."""
    return sa.func.now() - _interval(seconds)


def _interval(seconds: float | sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    years = months = weeks = days = hours = minutes = 0
    return sa.func.make_interval(years, months, weeks, days, hours, minutes, seconds)
