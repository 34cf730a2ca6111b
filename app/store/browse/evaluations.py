"""STORE: the list of evaluations, newest first."""

from __future__ import annotations

import sqlalchemy as sa

from app.domain.evaluation_row import EvaluationRow
from app.domain.filter_language import Expression
from app.store import evaluation_rows
from app.store import rare_filters
from app.store.browse import paging
from app.store.evaluation_rows import Cursor
from app.store.tables import evaluations, turns


def page(
    connection: sa.Connection,
    expression: Expression,
    *,
    descending: bool = True,
    older_than: Cursor | None = None,
    newer_than: Cursor | None = None,
    limit: int = 50,
) -> paging.Page[EvaluationRow]:
    """Evaluations that match, each once, newest (or else oldest) first: those behind `older_than`, or before
    `newer_than`, in that order."""
    condition = rare_filters.condition(connection, expression)

    def newest(cursor: Cursor | None, number: int) -> list[EvaluationRow]:
        return evaluation_rows.page(connection, where=condition, before=cursor, limit=number)

    def oldest(cursor: Cursor | None, number: int) -> list[EvaluationRow]:
        return _oldest(connection, condition, cursor, number)

    forward, backward = (newest, oldest) if descending else (oldest, newest)
    return paging.walk(forward, backward, after=older_than, before=newer_than, limit=limit)


def _oldest(
    connection: sa.Connection, condition: sa.ColumnElement[bool], cursor: Cursor | None, limit: int
) -> list[EvaluationRow]:
    """The mirror image of `rows.page`: rows newer than the cursor, oldest first."""
    query = (
        evaluation_rows.SELECTABLE.prefix_with(evaluation_rows.ONCE)
        .where(condition)
        .order_by(evaluations.c.created_at, evaluations.c.evaluation_id, turns.c.turn_id)
        .limit(limit)
    )
    if cursor is not None:
        key = sa.tuple_(evaluations.c.created_at, evaluations.c.evaluation_id)
        query = query.where(key > sa.tuple_(sa.literal(cursor.created_at), sa.literal(cursor.evaluation_id)))
    return [evaluation_rows.row_from(record) for record in connection.execute(query).mappings()]
