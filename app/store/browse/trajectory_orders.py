"""STORE: orders of the list of trajectories that no index has: by turns, correct turns and hacks.

Such a value is computed for every trajectory of the filter, from one index lookup each; a filter
that leaves more than MOST has none of these orders.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from app.domain.verdict import Label
from app.store.browse import paging
from app.store.evaluation import credited
from app.store.tables import attempts, trajectories, turns

MOST = paging.COUNTED
"""Trajectories that are put in such an order."""


def _counted(table: sa.Table, *conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[Any]:
    number = sa.select(sa.func.count()).where(
        table.c.trajectory_id == trajectories.c.trajectory_id, *conditions
    )
    return number.correlate(trajectories).scalar_subquery()


VALUES: dict[str, sa.ColumnElement[Any]] = {
    "turns": _counted(turns),
    "correct": _counted(attempts, credited.is_credited(attempts.c.correct, attempts.c.label)),
    "hacks": _counted(attempts, attempts.c.label == Label.HACK),
}
"""Name of an order → its value."""
