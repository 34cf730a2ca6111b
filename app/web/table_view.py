"""BROWSE: columns, order and pages of a list, as its URL says them: one rule for every list.

`?sort=-speedup&columns=problem&columns=speedup` shows two columns, the highest
speedup first.  Templates draw it with `_table.html`; a view with a name keeps the
query (`app.store.filter.saved_filters`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlencode
from uuid import UUID

import flask
from werkzeug.exceptions import BadRequest

from app.store.browse import paging
from app.web import request_context, table_export
from app.web.query_parameters import reads

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a list."""

    name: str
    heading: str
    """Label with a tooltip in app.web.vocabulary; empty for a column of boxes or
    buttons, which is always shown.
    """
    is_number: bool = False
    is_long: bool = False
    """True for names and sentences: the column has a least width, and words are broken anywhere."""
    sorts: bool = False
    """True if the list can be ordered by it."""
    is_usual: bool = True
    """False: shown only where it is chosen."""
    is_head: bool = False
    """True for the column with the link to the row's page; it is always shown."""

    @property
    def is_fixed(self) -> bool:
        """True if the column is always shown."""
        return self.is_head or not self.heading


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A list: its page, columns, filters and usual order."""

    endpoint: str
    table: str
    """Endpoint of the same rows as data."""
    columns: tuple[Column, ...]
    filters: tuple[str, ...] = ()
    """Query parameters that select rows."""
    sort: str = "-created_at"
    """Usual order: the name of a column, after `-` for descending; empty: an order
    that no column has.
    """
    key: str = ""
    """Attribute of a row with its id, by which pages are walked."""
    place: Callable[[Any, str], str] | None = None
    """Cursor of a row in an order, where that is not the id."""
    cursors: tuple[str, str] = ("older_than", "newer_than")
    """Query parameters of a page that comes after, and before, a row."""

    def reads(self, *others: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """A view function that shows the list, and reads `others` besides."""
        return reads(*self.filters, "sort", *self.cursors, *others, lists=("columns",))

    def view(self) -> View:
        """The view that the request asks for.  BadRequest for unknown columns and orders."""
        sort = request_context.argument("sort") or self.sort
        by = {column.name for column in self.columns if column.sorts}
        if sort != self.sort and sort.removeprefix("-") not in by:
            raise BadRequest(
                f"sort: expected one of {', '.join(sorted(by))}, after - for descending, got"
                f" {sort!r}"
            )
        return View(
            listing=self,
            asked={name: request_context.argument(name) for name in self.filters},
            sort=sort.removeprefix("-"),
            descending=sort.startswith("-"),
            shown=self._shown(),
        )

    def _shown(self) -> tuple[Column, ...]:
        chosen = flask.request.args.getlist("columns")
        known = {column.name for column in self.columns}
        for name in chosen:
            if name not in known:
                raise BadRequest(
                    f"columns: expected some of {', '.join(sorted(known))}, got {name!r}"
                )
        return tuple(
            column
            for column in self.columns
            if column.is_fixed or (column.name in chosen if chosen else column.is_usual)
        )


@dataclass(frozen=True, kw_only=True)
class View:
    """A list as a request asks for it."""

    listing: Listing
    asked: dict[str, str]
    """Filter parameter → its value; empty where it is absent."""
    sort: str
    descending: bool
    shown: tuple[Column, ...]

    @property
    def filtered(self) -> bool:
        """True if any filter is set."""
        return any(self.asked.values())

    @property
    def arguments(self) -> dict[str, Any]:
        """Query parameters of the same view from its first page."""
        return self._filters() | self._order() | self._columns()

    @property
    def query(self) -> str:
        """The view as the query of a URL."""
        return urlencode(self.arguments, doseq=True)

    @property
    def kept(self) -> list[tuple[str, str]]:
        """Hidden fields of a form that chooses other columns."""
        return list((self._filters() | self._order()).items())

    @property
    def carried(self) -> list[tuple[str, str]]:
        """Hidden fields of a form that chooses other rows."""
        columns = self._columns().get("columns", [])
        return [*self._order().items(), *(("columns", name) for name in columns)]

    @property
    def links(self) -> dict[str, str]:
        """Kind → URL of the same list as data, from its first row."""
        return table_export.links(self.listing.table, **self._filters(), **self._order())

    @property
    def most_rows(self) -> int:
        """Rows of the list as data, at most."""
        return request_context.TABLE_ROWS

    @property
    def window(self) -> paging.Window[UUID]:
        """The rows that the request asks for."""
        after, before = map(request_context.id_argument, self.listing.cursors)
        return paging.Window(
            sort=self.sort,
            descending=self.descending,
            after=after,
            before=before,
            limit=request_context.row_limit(),
        )

    def data(
        self, kind: str, name: str, page: paging.Page[Any], rows: Iterable[Any] | None = None
    ) -> flask.Response:
        """The rows as `kind`, or `rows` made of them; where there are more, the header Link leads
        to these.
        """
        response = table_export.answer(kind, name, page.rows if rows is None else rows)
        if page.rows and page.has_next:
            after = {self.listing.cursors[0]: self._place(page.rows[-1])}
            given = self._filters() | self._order() | after
            rest = flask.url_for(self.listing.table, kind=kind, **given)
            response.headers["Link"] = f'<{rest}>; rel="next"'
        return response

    def url(self, **changed: Any) -> str:
        """URL of the view's first page, with other parameters; None removes one."""
        return flask.url_for(self.listing.endpoint, **(self.arguments | changed))

    def sort_url(self, column: Column) -> str:
        """URL that orders by a column; the other way round where it does already.
        Numbers begin with the highest.
        """
        down = not self.descending if self.sort == column.name else column.is_number
        text = f"-{column.name}" if down else column.name
        return self.url(sort=None if text == self.listing.sort else text)

    def aria_sort(self, column: Column) -> str:
        """Value of `aria-sort`; empty for a column that the list is not ordered by."""
        return (
            ("descending" if self.descending else "ascending") if self.sort == column.name else ""
        )

    def pages(self, page: paging.Page[Any]) -> dict[str, str | None]:
        """`previous` and `next`: URLs of the pages before and after."""
        after, before = self.listing.cursors
        rows = page.rows
        return {
            "previous": (
                self.url(**{before: self._place(rows[0])}) if rows and page.has_previous else None
            ),
            "next": self.url(**{after: self._place(rows[-1])}) if rows and page.has_next else None,
        }

    def _place(self, row: Any) -> str:
        place, key = self.listing.place, self.listing.key
        return place(row, self.sort) if place else str(getattr(row, key))

    def arranged(self, rows: Iterable[T], value: Callable[[T, str], Any] = getattr) -> list[T]:
        """All rows of a short list in the view's order, absent values last; as they
        are without an order.
        """
        listed = list(rows)
        if not self.sort:
            return listed
        keyed = [(value(row, self.sort), row) for row in listed]
        present = sorted(
            (pair for pair in keyed if pair[0] is not None), key=_first, reverse=self.descending
        )
        return [row for _, row in present] + [row for found, row in keyed if found is None]

    def _filters(self) -> dict[str, Any]:
        return {name: text for name, text in self.asked.items() if text}

    def _order(self) -> dict[str, Any]:
        text = f"-{self.sort}" if self.descending else self.sort
        return {} if text == self.listing.sort else {"sort": text}

    def _columns(self) -> dict[str, Any]:
        usual = tuple(
            column for column in self.listing.columns if column.is_usual or column.is_fixed
        )
        chosen: Sequence[Column] = (
            [] if self.shown == usual else [each for each in self.shown if not each.is_fixed]
        )
        return {"columns": [column.name for column in chosen]} if chosen else {}


def _first(pair: tuple[Any, object]) -> Any:
    return pair[0].lower() if isinstance(pair[0], str) else pair[0]
