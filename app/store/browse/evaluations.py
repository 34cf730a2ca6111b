"""STORE: the list of evaluations, newest first."""

from __future__ import annotations

import sqlalchemy as sa

from app.domain.evaluation_row import EvaluationRow
from app.store import evaluation_rows, filter_walk
from app.store.browse import paging
from app.store.evaluation_rows import Cursor
from app.store.filter_walk import Budget, Walk
from app.store.rare_filters import Narrowed
from app.store.tables import evaluations, turns


def page(
    connection: sa.Connection,
    of: Narrowed,
    *,
    descending: bool = True,
    older_than: Cursor | None = None,
    newer_than: Cursor | None = None,
    limit: int = 50,
    budget: Budget | None = None,
) -> paging.Page[EvaluationRow]:
    """Evaluations that match a filter, each once, newest (or else oldest) first: those behind
    `older_than`, or before `newer_than`, in that order; fewer where the budget is over first.
    """

    def read(cursor: Cursor | None, number: int, *, newest: bool) -> list[EvaluationRow]:
        after = (cursor.created_at, cursor.evaluation_id) if cursor else None
        walk = Walk(value=evaluations.c.created_at, descending=newest, after=after)
        query = evaluation_rows.SELECTABLE.prefix_with(evaluation_rows.ONCE).order_by(
            *walk.order, turns.c.turn_id
        )
        found = filter_walk.rows(connection, query, of, walk, limit=number, budget=budget)
        return [evaluation_rows.row_from(record._mapping) for record in found]

    return paging.walk(
        lambda cursor, number: read(cursor, number, newest=descending),
        lambda cursor, number: read(cursor, number, newest=not descending),
        after=older_than,
        before=newer_than,
        limit=limit,
    )
