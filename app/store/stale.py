"""STORE: datasets whose rows rest on a verdict that has changed since they were made."""

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa

from app.store.tables import evaluations, export_rows, exports


def resting_on(connection: sa.Connection, evaluation_id: UUID) -> list[UUID]:
    """Datasets that hold a row of that evaluation and are not stale yet, oldest first."""
    query = sa.select(exports.c.export_id).where(_holds(evaluation_id), exports.c.stale_at.is_(None))
    return list(connection.scalars(query.order_by(exports.c.export_id)))


def mark(connection: sa.Connection, evaluation_id: UUID, reason: str) -> list[UUID]:
    """Mark those datasets; each keeps the time and the reason of its first mark, because one changed row is enough.

    A dataset is not made fresh by a verdict that changes back: its files carry the verdicts of its own time."""
    marked = sa.update(exports).where(_holds(evaluation_id), exports.c.stale_at.is_(None))
    values = marked.values(stale_at=sa.func.now(), stale_reason=reason)
    return sorted(connection.scalars(values.returning(exports.c.export_id)))


def _holds(evaluation_id: UUID) -> sa.ColumnElement[bool]:
    """Condition: a row of the dataset rests on the detectors' verdict; a person's label outlasts it."""
    rows = export_rows.join(evaluations)
    unreviewed = evaluations.c.human_verdict.is_(None)
    query = sa.select(export_rows.c.export_id).select_from(rows)
    return exports.c.export_id.in_(query.where(export_rows.c.evaluation_id == evaluation_id, unreviewed))
