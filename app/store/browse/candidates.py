"""STORE: the grid of all evaluated candidates: pages in several orders, and the
facets to narrow it by.

Nothing is counted over the whole table: facets are those of the newest rows that match, and say so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from psycopg.errors import QueryCanceled
from sqlalchemy.exc import OperationalError

from app.domain.evaluation_row import EvaluationRow
from app.domain.verdict import is_shown
from app.store.browse import paging
from app.store.evaluation import evaluation_rows
from app.store.filter import filter_walk
from app.store.filter.filter_walk import Budget, Place, Walk
from app.store.filter.rare_filters import Narrowed
from app.store.tables import evaluations, hourly_counts, turns

FACET_ROWS = 500
"""Rows that facets count: enough to find the usual values, few enough to be read for every page."""

FACETS = ("status", "verdict", "backend", "device_class", "source_set", "level")

PATIENCE_S = 5
"""Time limit of a filter: one that matches next to nothing has to look at everything."""


class TooBroadError(ValueError):
    """A filter that was given up."""


@contextmanager
def patience(connection: sa.Connection) -> Iterator[None]:
    """Cancel queries of more than PATIENCE_S by a TooBroadError, so that the rest of
    the page is not held up.
    """
    connection.execute(sa.text(f"SET LOCAL statement_timeout = {round(PATIENCE_S * 1000)}"))
    try:
        yield
    except OperationalError as error:
        if not isinstance(error.orig, QueryCanceled):
            raise
        raise TooBroadError(
            f"given up after {PATIENCE_S} s: expected a filter that finds its rows sooner; narrow"
            " it by run, problem, status or time, or export it, which may take as long as it needs"
        ) from error


SORTS: dict[str, sa.Column[Any]] = {
    "created_at": evaluations.c.created_at,
    "speedup": evaluations.c.speedup,
    "candidate_us": evaluations.c.candidate_us,
    "coverage_time": evaluations.c.coverage_time,
}
"""Orders of the grid → their column; each has an index of the evaluations that have a value."""


def place_of(row: EvaluationRow, sort: str) -> Place:
    """The place of a row in an order."""
    return getattr(row, "measured_speedup" if sort == "speedup" else sort), row.evaluation_id


def place_text(place: Place) -> str:
    """A place as text for a URL."""
    value, evaluation_id = place
    return f"{value.isoformat() if isinstance(value, datetime) else repr(value)}_{evaluation_id}"


def place_in(text: str, sort: str) -> Place:
    """The place in an order that a text gives.  Raises ValueError if it is invalid."""
    by_time = sort == "created_at"
    value, _, evaluation_id = text.partition("_")
    try:
        found = datetime.fromisoformat(value) if by_time else float(value)
        place = found, UUID(evaluation_id)
    except ValueError:
        kind = "time" if by_time else "number"
        raise ValueError(f"cursor: expected '<{kind}>_<evaluation id>', got {text!r}") from None
    if isinstance(found, float) and not math.isfinite(found):
        raise ValueError(f"cursor: expected a finite number, got {value}")
    if isinstance(found, datetime) and found.tzinfo is None:
        raise ValueError(f"cursor: expected a time with an offset, got {text!r}")
    return place


@dataclass(frozen=True, kw_only=True)
class Facets:
    """Values of some fields, with how many of the rows looked at have them."""

    counts: dict[str, list[tuple[Any, int]]]
    looked_at: int
    all_of_them: bool
    """True if the facets count every row that matches."""


def page(
    connection: sa.Connection,
    of: Narrowed,
    window: paging.Window[Place],
    budget: Budget | None = None,
) -> paging.Page[EvaluationRow]:
    """Evaluations that match and have the value of an order of SORTS, as measured, each once; by
    age as a rule.  They are fewer where the budget is over first.
    """
    column = SORTS[window.sort or "created_at"]

    def read(after: Place | None, number: int, backwards: bool) -> list[EvaluationRow]:
        once = sa.text(f"DISTINCT ON (evaluations.{column.name}, evaluations.evaluation_id)")
        walk = Walk(value=column, descending=window.descending != backwards, after=after)
        query = evaluation_rows.SELECTABLE.prefix_with(once).order_by(*walk.order, turns.c.turn_id)
        found = filter_walk.rows(connection, query, of, walk, limit=number, budget=budget)
        return [evaluation_rows.row_from(record._mapping) for record in found]

    return paging.walk(read, window)


def facets(connection: sa.Connection, of: Narrowed, budget: Budget | None = None) -> Facets:
    """Counts of each facet's values among the newest matches, each evaluation once,
    as the list has them.
    """
    walk = Walk(value=evaluations.c.created_at, descending=True)
    query = (
        sa.select(*(evaluation_rows.COLUMNS[name].label(name) for name in FACETS))
        .prefix_with(evaluation_rows.ONCE)
        .select_from(evaluation_rows.JOINED)
        .order_by(*walk.order, turns.c.turn_id)
    )
    found = filter_walk.rows(connection, query, of, walk, limit=FACET_ROWS, budget=budget)
    is_whole = budget is None or budget.stopped_at is None
    return facets_of(found, all_of_them=is_whole and len(found) < FACET_ROWS)


def facets_of(found: Sequence[Any], *, all_of_them: bool) -> Facets:
    """The same of rows that were read, of all that match or of some."""
    counts = {name: Counter(getattr(row, name) for row in found) for name in FACETS}
    counts["verdict"] = Counter(
        row.verdict for row in found if is_shown(label=row.verdict, status=row.status)
    )
    return Facets(
        counts={name: counter.most_common() for name, counter in counts.items()},
        looked_at=len(found),
        all_of_them=all_of_them,
    )


def stored(connection: sa.Connection) -> int:
    """Judged evaluations in all, from the roll-ups."""
    return int(
        connection.scalar(sa.select(sa.func.coalesce(sa.func.sum(hourly_counts.c.evaluations), 0)))
        or 0
    )
