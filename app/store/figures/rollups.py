"""STORE: the roll-ups behind the dashboards: folding their deltas, and proving them
against their sources.

Triggers keep them (migrations/versions/20261121_rollups.py); nothing here has to run
for the numbers to be right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.store.tables import attempt_counts, attempts, hourly_counts, hourly_findings, hourly_stages

FOLD_LOCK = 0x464F4C44
"""Advisory lock of the fold: 'FOLD'."""

FOLD_ROWS = 2_000
"""Deltas of one table that are worth folding: reading so many more costs a page
about a millisecond.
"""

NO_RUN = UUID(int=0)
"""Stands for no run where keys are compared."""

COUNTED = (attempt_counts, hourly_counts, hourly_stages, hourly_findings)
"""Tables of deltas.  Columns of big integers are counts, all others are the key."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A roll-up with a wrong count."""

    table: str
    missing: int
    """Rows of the definition that the roll-up lacks."""
    surplus: int
    """Rows of the roll-up that the definition does not have."""


def fold(connection: sa.Connection, *, least: int = FOLD_ROWS) -> int:
    """Merge the deltas of every roll-up that has at least `least` of them; the
    number of rows that this saved.

    Sums are the same before, meanwhile and after.  0 where another process is at it.
    """
    if not connection.execute(sa.select(sa.func.pg_try_advisory_xact_lock(FOLD_LOCK))).scalar_one():
        return 0
    return sum(_fold(connection, table, least) for table in COUNTED)


def check(connection: sa.Connection) -> list[Difference]:
    """Compute every roll-up anew and compare: the tables that differ.  Reads
    everything; use a snapshot.
    """
    found = [_compare(connection, "attempts", sa.select(attempts), "attempt_facts")]
    found += [
        _compare(connection, table.name, _summed(table), f"{table.name}_facts") for table in COUNTED
    ]
    return [difference for difference in found if difference.missing or difference.surplus]


def rebuild(connection: sa.Connection) -> None:
    """Make every roll-up anew, in one transaction that keeps writers out until it ends.

    Tables are locked in the order in which a worker writes to them, so that neither waits for the
    other.
    """
    names = ", ".join(table.name for table in (attempts, *COUNTED))
    tables = f"evaluations, verdicts, findings, turns, {names}"
    connection.execute(sa.text(f"LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE"))
    for table in (attempts, *COUNTED):
        connection.execute(sa.delete(table))
    for table in COUNTED:  # the counts subtracted by deleting attempts
        connection.execute(sa.delete(table))
    _fill(connection, attempts, "attempt_facts")  # its trigger fills attempt_counts
    for table in (hourly_counts, hourly_stages, hourly_findings):
        _fill(connection, table, f"{table.name}_facts")


def _fill(connection: sa.Connection, table: sa.Table, view: str) -> None:
    names = [column.name for column in table.c]
    facts = sa.table(view, *(sa.column(name) for name in names))
    connection.execute(sa.insert(table).from_select(names, sa.select(facts)))


def _keys(table: sa.Table) -> list[sa.Column[Any]]:
    return [column for column in table.c if not isinstance(column.type, sa.BigInteger)]


def _counts(table: sa.Table) -> list[sa.Column[int]]:
    return [column for column in table.c if isinstance(column.type, sa.BigInteger)]


def _fold(connection: sa.Connection, table: sa.Table, least: int) -> int:
    """Only keys that have several rows are touched, so that a table at rest is not
    written again.
    """
    keys = _keys(table)
    groups = (
        sa.select(*keys, sa.func.count().label("rows"))
        .group_by(*keys)
        .having(sa.func.count() > 1)
        .cte("groups")
    )
    spare = connection.execute(
        sa.select(sa.func.coalesce(sa.func.sum(groups.c.rows - 1), 0))
    ).scalar_one()
    if spare < least:
        return 0
    same = sa.and_(
        *(_comparable(table.c[key.name]) == _comparable(groups.c[key.name]) for key in keys)
    )
    gone = sa.delete(table).where(same).returning(*table.c).cte("gone")
    gone_keys, gone_counts = (
        [gone.c[key.name] for key in keys],
        [gone.c[count.name] for count in _counts(table)],
    )
    some = sa.or_(*(sa.func.sum(count) != 0 for count in gone_counts))
    summed = (
        sa.select(*gone_keys, *(_total(count) for count in gone_counts))
        .group_by(*gone_keys)
        .having(some)
    )
    connection.execute(sa.insert(table).from_select([column.name for column in table.c], summed))
    return int(spare)


def _comparable(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Equal where both are NULL, and unlike IS NOT DISTINCT FROM something that
    PostgreSQL can hash.
    """
    return (
        sa.func.coalesce(column, sa.literal(NO_RUN, sa.Uuid))
        if isinstance(column.type, sa.Uuid)
        else column
    )


def _total(column: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """A sum as the column's own type: PostgreSQL sums big integers to numeric."""
    return sa.cast(sa.func.sum(column), sa.BigInteger).label(column.name)


def _summed(table: sa.Table) -> sa.Select[Any]:
    """Rows as readers see them: one per key, and none where all counts are 0."""
    totals = [_total(column) for column in _counts(table)]
    some = sa.or_(*(sa.func.sum(column) != 0 for column in _counts(table)))
    return sa.select(*_keys(table), *totals).group_by(*_keys(table)).having(some)


def _compare(connection: sa.Connection, name: str, held: sa.Select[Any], view: str) -> Difference:
    facts = sa.select(sa.table(view, *(sa.column(column.name) for column in held.selected_columns)))
    counted = {
        side: (
            connection.execute(
                sa.select(sa.func.count()).select_from(one.except_(other).subquery())
            ).scalar_one()
        )
        for side, one, other in (("missing", facts, held), ("surplus", held, facts))
    }
    return Difference(table=name, **counted)
