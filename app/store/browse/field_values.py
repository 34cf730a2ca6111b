"""STORE: values of the text fields of a filter, for its completion."""

from __future__ import annotations

import sqlalchemy as sa

from app.store.tables import devices, problems, runs

_COLUMNS = {
    "run": runs.c.name,
    "model": runs.c.model,
    "problem": problems.c.name,
    "source_set": problems.c.source_set,
    "gpu": devices.c.device_class,
}
"""Field → column of a small table that has its values."""


def beginning(connection: sa.Connection, field: str, text: str, limit: int = 12) -> list[str]:
    """Values of a field that contain the text, the shortest first; empty for a field
    without a small table.
    """
    column = _COLUMNS.get(field)
    if column is None:
        return []
    found = sa.select(column).where(column.icontains(text, autoescape=True)).distinct().subquery()
    return list(
        connection.scalars(
            sa.select(found.c[0]).order_by(sa.func.length(found.c[0]), found.c[0]).limit(limit)
        )
    )
