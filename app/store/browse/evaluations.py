"""STORE: the list of evaluations, newest first."""

from __future__ import annotations

import sqlalchemy as sa

from app.domain.evaluation_row import EvaluationRow
from app.domain.filter_language import Expression
from app.store import evaluation_rows, rare_filters
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
    """Evaluations that match, each once, newest (or else oldest) first: those behind `older_than`,
    or before `newer_than`, in that order.
    """
    narrowed = rare_filters.narrowed(connection, expression)
    keys = (evaluations.c.created_at, evaluations.c.evaluation_id)

    def read(cursor: Cursor | None, number: int, *, newest: bool) -> list[EvaluationRow]:
        order = [key.desc() if newest else key.asc() for key in keys]
        query = evaluation_rows.SELECTABLE.prefix_with(evaluation_rows.ONCE).order_by(
            *order, turns.c.turn_id
        )
        behind: list[sa.ColumnElement[bool]] = []
        if cursor is not None:
            bound = sa.tuple_(sa.literal(cursor.created_at), sa.literal(cursor.evaluation_id))
            behind = [sa.tuple_(*keys) < bound if newest else sa.tuple_(*keys) > bound]
        found = rare_filters.rows(connection, query, narrowed, order, where=behind, limit=number)
        return [evaluation_rows.row_from(record._mapping) for record in found]

    return paging.walk(
        lambda cursor, number: read(cursor, number, newest=descending),
        lambda cursor, number: read(cursor, number, newest=not descending),
        after=older_than,
        before=newer_than,
        limit=limit,
    )
