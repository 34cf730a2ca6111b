"""STORE: a page of a list that is walked by key in both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

import sqlalchemy as sa

T = TypeVar("T")
K = TypeVar("K")


@dataclass(frozen=True, kw_only=True)
class Page(Generic[T]):
    """Rows in the list's order, and whether there is more on either side."""

    rows: tuple[T, ...]
    has_previous: bool
    has_next: bool


@dataclass(frozen=True, kw_only=True)
class Window(Generic[K]):
    """The rows of a list that are asked for: after a key, right before one, or the first."""

    sort: str = ""
    """Name of the list's order; empty: the usual one."""
    descending: bool = True
    after: K | None = None
    before: K | None = None
    limit: int = 50


def walk(read: Callable[[K | None, int, bool], Sequence[T]], window: Window[K]) -> Page[T]:
    """The page in a window.

    `read(key, n, backwards)` gives n rows after the key in the list's order (None: from the
    start) or, `backwards`, before it, nearest first.  A page that would begin short of a full one
    is the first page.
    """
    after, limit = window.after, window.limit
    if window.before is not None:
        found = read(window.before, limit + 1, True)
        if len(found) > limit:
            return Page(rows=tuple(reversed(found[:limit])), has_previous=True, has_next=True)
        after = None
    found = read(after, limit + 1, False)
    return Page(
        rows=tuple(found[:limit]), has_previous=after is not None, has_next=len(found) > limit
    )


@dataclass(frozen=True, kw_only=True)
class Total:
    """Number of rows of a list."""

    number: int
    is_exact: bool
    """False: there are more, which were not counted."""


COUNTED = 10_000
"""Rows that `total` counts at most: some milliseconds of an index."""


def total(connection: sa.Connection, query: sa.Select[Any], most: int = COUNTED) -> Total:
    """Number of rows of a select, up to `most`."""
    some = (
        query.with_only_columns(sa.literal(1), maintain_column_froms=True)
        .order_by(None)
        .limit(most + 1)
        .subquery()
    )
    number = int(connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one())
    return Total(number=min(number, most), is_exact=number <= most)


@dataclass(frozen=True, kw_only=True)
class Order:
    """An order of rows: by a value, absent ones last, then by the id."""

    value: sa.ColumnElement[Any]
    key: sa.ColumnElement[UUID]
    nullable: bool = True
    """False: the value is never absent, so that an index of value and key gives the order."""

    def page(
        self,
        connection: sa.Connection,
        query: sa.Select[Any],
        load: Callable[[list[UUID]], list[T]],
        window: Window[UUID],
    ) -> Page[T]:
        """The page of `query`'s rows in a window; its keys are ids.  `load` gives the rows of ids
        in their order.

        A cursor that is no row of the query any more gives the first page.
        """

        def read(cursor: UUID | None, number: int, backwards: bool) -> list[UUID]:
            down = window.descending != backwards
            order = self._clauses(down=down, backwards=backwards)
            chosen = query.with_only_columns(self.key).order_by(*order).limit(number)
            if cursor is not None:
                at = connection.execute(
                    query.with_only_columns(self.value).where(self.key == cursor)
                ).first()
                if at is None:
                    return [] if backwards else read(None, number, False)
                beyond = self._beyond(at[0], cursor, down=down, backwards=backwards)
                chosen = chosen.where(beyond)
            return list(connection.scalars(chosen))

        found = walk(read, window)
        return Page(
            rows=tuple(load(list(found.rows))),
            has_previous=found.has_previous,
            has_next=found.has_next,
        )

    def _clauses(self, *, down: bool, backwards: bool) -> list[sa.ColumnElement[Any]]:
        value = self.value.desc() if down else self.value.asc()
        if self.nullable:
            value = value.nulls_first() if backwards else value.nulls_last()
        return [value, self.key.desc() if down else self.key.asc()]

    def _beyond(
        self, at: Any, cursor: UUID, *, down: bool, backwards: bool
    ) -> sa.ColumnElement[bool]:
        """Rows behind the cursor's in the direction of the walk."""
        place = sa.literal(cursor, sa.Uuid)
        later = self.key < place if down else self.key > place
        if at is None:
            same = sa.and_(self.value.is_(None), later)
            return sa.or_(same, self.value.is_not(None)) if backwards else same
        if not self.nullable:
            both = sa.tuple_(self.value, self.key)
            bound = sa.tuple_(sa.literal(at, self.value.type), place)
            return both < bound if down else both > bound
        beyond = self.value < at if down else self.value > at
        found = sa.or_(beyond, sa.and_(self.value == at, later))
        return found if backwards else sa.or_(found, self.value.is_(None))
