"""STORE: the admin pages: amounts stored, and any table row by row, read-only,
without secret columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.store.tables import metadata

HIDDEN_TABLES = frozenset({"sessions", "login_failures"})
"""Nothing in them is for eyes."""
HIDDEN_COLUMNS = frozenset({"password_hash", "token_hash"})
SHOWN_CHARACTERS = 200
"""Limit of a shown value; longer ones are cut in PostgreSQL, so that a page never
holds a timeline.
"""


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Space taken by a table."""

    table: str
    rows: int | None
    """Estimated by PostgreSQL; None where it has not looked yet."""
    heap_bytes: int
    index_bytes: int
    toast_bytes: int
    """Long values, kept apart."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """The database as a whole."""

    version: str
    revision: str
    """Revision of the migrations."""
    database_bytes: int
    connections: int


@dataclass(frozen=True, kw_only=True)
class RawPage:
    """Rows of a table as text."""

    table: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    next_key: str | None
    """Beginning of the next page; None at the end, or where the table has no single key."""


def tables() -> list[str]:
    """Every table that may be shown."""
    return sorted(set(metadata.tables) - HIDDEN_TABLES)


def storage(connection: sa.Connection) -> list[Storage]:
    """Every table of Assay, largest first."""
    query = sa.text("""
        SELECT c.relname AS table, CASE WHEN c.reltuples < 0 THEN NULL ELSE c.reltuples::bigint END
          AS rows,
               pg_relation_size(c.oid) AS heap_bytes, pg_indexes_size(c.oid) AS index_bytes,
               pg_table_size(c.oid) - pg_relation_size(c.oid) AS toast_bytes
        FROM pg_class c WHERE c.relname = ANY (:names) AND c.relnamespace = 'public'::regnamespace
        ORDER BY pg_total_relation_size(c.oid) DESC, c.relname
    """).bindparams(sa.bindparam("names", list(metadata.tables), type_=sa.ARRAY(sa.Text)))
    return [Storage(**row) for row in connection.execute(query).mappings()]


def server(connection: sa.Connection) -> Server:
    """Version, migrations, size and connections."""
    query = sa.text("""
        SELECT current_setting('server_version') AS version, (SELECT version_num
          FROM alembic_version) AS revision,
               pg_database_size(current_database()) AS database_bytes,
               (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database())::integer
                 AS connections
    """)
    return Server(**connection.execute(query).mappings().one())


def raw(
    connection: sa.Connection, name: str, *, before: str | None = None, limit: int = 50
) -> RawPage | None:
    """Rows of a table, newest key first, from before a key on; None where no such table is shown.

    Raises ValueError for a key that cannot be one."""
    if name not in tables():
        return None
    table = metadata.tables[name]
    columns = [column for column in table.c if column.name not in HIDDEN_COLUMNS]
    keys = list(table.primary_key.columns)
    query = sa.select(*(_shown(column) for column in columns)).limit(limit + 1)
    if len(keys) == 1:
        query = query.add_columns(_key_text(keys[0]))
    if keys:
        query = query.order_by(*(key.desc() for key in keys))
    if before is not None:
        if len(keys) != 1:
            raise ValueError(f"before: expected none, {name} has no single key")
        query = query.where(keys[0] < _key(keys[0], before))
    found: Sequence[Any] = connection.execute(query).all()
    more = len(found) > limit and len(keys) == 1
    return RawPage(
        table=name,
        columns=tuple(column.name for column in columns),
        rows=tuple(tuple(row[: len(columns)]) for row in found[:limit]),
        next_key=found[limit - 1][-1] if more else None,
    )


def _shown(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """Bytes by their number, everything else as text, cut."""
    if isinstance(column.type, sa.LargeBinary):
        return (sa.cast(sa.func.octet_length(column), sa.Text) + " bytes").label(column.name)
    return sa.func.left(sa.cast(column, sa.Text), SHOWN_CHARACTERS).label(column.name)


def _key_text(column: sa.Column[Any]) -> sa.ColumnElement[str]:
    """A whole key as `_key` reads it: unlike a shown value, bytes in hexadecimal, and not cut."""
    if isinstance(column.type, sa.LargeBinary):
        return sa.func.encode(column, "hex").label("key_text")
    return sa.cast(column, sa.Text).label("key_text")


def _key(column: sa.Column[Any], text: str) -> Any:
    if isinstance(column.type, sa.Uuid):
        return UUID(text)
    if isinstance(column.type, sa.LargeBinary):
        return bytes.fromhex(text)
    return int(text) if isinstance(column.type, sa.Integer) else text
