"""STORE: preferences of people between two candidates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from app.store.postgres import row_columns
from app.store.tables import preferences, users


@dataclass(frozen=True, kw_only=True)
class Preference:
    """One person's choice."""

    chosen_evaluation_id: UUID
    reviewer: str
    reason: str
    created_at: datetime


def _between(one: UUID, other: UUID) -> sa.ColumnElement[bool]:
    """Condition: the choice was between these two."""
    chosen, rejected = preferences.c.chosen_evaluation_id, preferences.c.rejected_evaluation_id
    return sa.or_(
        sa.and_(chosen == one, rejected == other),
        sa.and_(chosen == other, rejected == one),
    )


def between(connection: sa.Connection, one: UUID, other: UUID) -> list[Preference]:
    """Every choice between these two, oldest first."""
    query = (
        sa.select(*row_columns.of(Preference, preferences, reviewer=row_columns.USER))
        .select_from(preferences.outerjoin(users, users.c.user_id == preferences.c.user_id))
        .where(_between(one, other))
        .order_by(preferences.c.preference_id)
    )
    return [Preference(**row) for row in connection.execute(query).mappings()]
