"""STORE: rows of a filter in an order of evaluations, as far as a time budget allows.

Of a filter that few evaluations match, `rare_filters` knows them, or an index has them: one
statement reads the rows.  Two conditions that are usual by themselves may hold together for next to
nothing, though, and no statistics say so: PostgreSQL then looks at every evaluation, which takes
seconds.  A search with a `Budget` ends such a statement after TRIED_S and goes on in windows: so
many evaluations of the order, with those tables only that the filter needs.  Where the budget ends
first, it says how far the search came, and a later search goes on from there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.store.evaluation import evaluation_rows
from app.store.filter import filter_sql
from app.store.filter.rare_filters import Narrowed
from app.store.postgres import time_limit
from app.store.tables import evaluations

FIRST = 500
"""Evaluations that are joined at first where all are known; four times as many follow, and so
on.
"""
LARGEST = 2_000
"""Most of them at a time in a search with a budget."""
TRIED_S = 0.5
"""Time of the one statement that reads everything."""
LEAST_WINDOW = 2_000
"""Evaluations of the first window: they are looked at in any case, so that a search gets ahead."""
WINDOW_S = 0.12
"""Time that a window should take."""

Place = tuple[Any, UUID]
"""Value and id of an evaluation: its place in an order."""


@dataclass(frozen=True, kw_only=True)
class Walk:
    """An order of the evaluations that have a value, and the place behind which to begin."""

    value: sa.Column[Any]
    descending: bool
    after: Place | None = None

    @property
    def order(self) -> list[sa.ColumnElement[Any]]:
        """Clauses of the order: it has an index."""
        return [key.desc() if self.descending else key.asc() for key in self._keys]

    @property
    def where(self) -> list[sa.ColumnElement[bool]]:
        """Conditions on evaluations of this walk."""
        found: list[sa.ColumnElement[bool]] = [self.value.is_not(None)]
        return found if self.after is None else [*found, self.behind(self.after)]

    def behind(self, place: Place) -> sa.ColumnElement[bool]:
        """Condition of evaluations behind a place."""
        keys, bound = sa.tuple_(*self._keys), self._bound(place)
        return keys < bound if self.descending else keys > bound

    def until(self, place: Place) -> sa.ColumnElement[bool]:
        """Condition of evaluations up to a place, itself included."""
        keys, bound = sa.tuple_(*self._keys), self._bound(place)
        return keys >= bound if self.descending else keys <= bound

    @property
    def _keys(self) -> tuple[sa.Column[Any], sa.Column[UUID]]:
        return self.value, evaluations.c.evaluation_id

    def _bound(self, place: Place) -> sa.Tuple:
        value, evaluation_id = place
        return sa.tuple_(sa.literal(value, self.value.type), sa.literal(evaluation_id, sa.Uuid))


@dataclass(kw_only=True)
class Budget:
    """Time for a search, and how far it came."""

    ends_s: float
    """Moment of `time.monotonic`."""
    searched: int = 0
    """Evaluations of the windows that were searched; 0 where one statement read the rows."""
    stopped_at: Place | None = None
    """Place behind which nothing was searched; None where the rows are complete."""

    @classmethod
    def of(cls, seconds: float) -> Budget:
        """A budget that begins now."""
        return cls(ends_s=time.monotonic() + seconds)

    @property
    def left_s(self) -> float:
        """Time that is left; below 0 where it is over."""
        return self.ends_s - time.monotonic()


def rows(
    connection: sa.Connection,
    query: sa.Select[Any],
    of: Narrowed,
    walk: Walk,
    *,
    limit: int,
    budget: Budget | None = None,
) -> list[sa.Row[Any]]:
    """The first rows of `query` that match, in its order, which begins with that of `walk`.  With a
    budget they may be fewer: `stopped_at` says so.
    """
    if of.is_never:
        return []
    query = query.where(of.condition, *walk.where)
    if of.among:
        return _of_known(connection, query, of, walk, limit, budget)
    if budget is None:
        return list(connection.execute(query.limit(limit)))
    found = _tried(connection, query.limit(limit), budget)
    return _in_windows(connection, query, of, walk, limit, budget) if found is None else found


def _of_known(
    connection: sa.Connection,
    query: sa.Select[Any],
    of: Narrowed,
    walk: Walk,
    limit: int,
    budget: Budget | None,
) -> list[sa.Row[Any]]:
    """Rows of evaluations whose ids are known."""
    known = _known(connection, of, walk)
    found: list[sa.Row[Any]] = []
    for start, end in _chunks(len(known), LARGEST if budget else len(known)):
        those = _those([evaluation_id for _, evaluation_id in known[start:end]])
        found += connection.execute(query.where(those).limit(limit - len(found))).all()
        if len(found) == limit:
            break
        if budget and budget.left_s < WINDOW_S and end < len(known):
            budget.searched, budget.stopped_at = end, known[end - 1]
            break
    return found


def _known(connection: sa.Connection, of: Narrowed, walk: Walk) -> Sequence[Place]:
    """Places of the evaluations whose ids are known, in the order of the walk."""
    key = (walk.value.name, walk.descending, walk.after)
    if key not in of.places:
        query = sa.select(walk.value, evaluations.c.evaluation_id).where(
            *map(filter_sql.among, of.among), *of.here, *walk.where
        )
        found = connection.execute(query.order_by(*walk.order))
        of.places[key] = [(value, evaluation_id) for value, evaluation_id in found]
    return of.places[key]


def _chunks(number: int, largest: int) -> Iterator[tuple[int, int]]:
    start, size = 0, FIRST
    while start < number:
        yield start, min(start + size, number)
        start, size = start + size, min(4 * size, max(largest, FIRST))


def _those(ids: Sequence[UUID]) -> sa.ColumnElement[bool]:
    return evaluations.c.evaluation_id == sa.any_(sa.literal(list(ids), ARRAY(sa.Uuid)))


def _tried(
    connection: sa.Connection, query: sa.Select[Any], budget: Budget
) -> list[sa.Row[Any]] | None:
    """The rows of one statement; None where it takes too long."""
    try:
        with _ending(connection, min(time.monotonic() + TRIED_S, budget.ends_s)):
            return list(connection.execute(query))
    except time_limit.TimeOverError:
        return None


@contextmanager
def _ending(connection: sa.Connection, ends_s: float) -> Iterator[None]:
    """Statements that end at that moment by TimeOverError.  Their savepoint is rolled back in any
    case: a limit of time would stay for the statements that follow.
    """
    savepoint = connection.begin_nested()
    try:
        with time_limit.until(connection, ends_s):
            yield
    finally:
        savepoint.rollback()


def _in_windows(
    connection: sa.Connection,
    query: sa.Select[Any],
    of: Narrowed,
    walk: Walk,
    limit: int,
    budget: Budget,
) -> list[sa.Row[Any]]:
    """Rows of window after window until there are enough, or the budget is over."""
    found: list[sa.Row[Any]] = []
    place, size, ends_s = walk.after, LEAST_WINDOW, math.inf
    while True:
        began_s = time.monotonic()
        try:
            with _ending(connection, ends_s):
                end = _end(connection, walk, place, size)
                ids = _matching(connection, of, walk, place, end, limit - len(found))
        except time_limit.TimeOverError:
            budget.stopped_at = place
            return found
        if ids:
            found += connection.execute(query.where(_those(ids)).limit(limit - len(found))).all()
        budget.searched += size
        if end is None or len(found) == limit:
            return found
        place, ends_s = end, budget.ends_s
        if budget.left_s < WINDOW_S:
            budget.stopped_at = end
            return found
        took_s = max(time.monotonic() - began_s, 0.001)
        size = max(LEAST_WINDOW, round(size * min(4.0, WINDOW_S / took_s)))


def _end(connection: sa.Connection, walk: Walk, place: Place | None, size: int) -> Place | None:
    """Place of the evaluation that so many behind another one; None where there are fewer."""
    query = sa.select(walk.value, evaluations.c.evaluation_id).where(*walk.where)
    if place is not None:
        query = query.where(walk.behind(place))
    row = connection.execute(query.order_by(*walk.order).offset(size - 1).limit(1)).one_or_none()
    return None if row is None else (row[0], row[1])


def _matching(
    connection: sa.Connection,
    of: Narrowed,
    walk: Walk,
    start: Place | None,
    end: Place | None,
    limit: int,
) -> Sequence[UUID]:
    """Ids of the window's first evaluations that match, from no more tables than it takes."""
    window = [*([walk.behind(start)] if start else []), *([walk.until(end)] if end else [])]
    query = (
        sa.select(evaluations.c.evaluation_id, walk.value)
        .select_from(evaluation_rows.joined_for(of.condition))
        .where(of.condition, *of.here, *walk.where, *window)
        .distinct()
    )
    return connection.scalars(query.order_by(*walk.order).limit(limit)).all()
