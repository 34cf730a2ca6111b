"""STORE: many rows in one statement.  Arrays keep the SQL constant and cost one round trip."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

LOOKS = 5
"""Executions after which a row must be there: the second one sees rows that were
committed during the first.
"""

_DIALECT: sa.Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]

Key = tuple[Any, ...]


@dataclass(frozen=True)
class StoredRow:
    """A row that is there now."""

    row_id: UUID
    added: bool
    """True if this call stored it."""


def insert_missing(
    connection: sa.Connection,
    table: sa.Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    unique: tuple[str, ...],
    now: tuple[str, ...] = (),
) -> dict[Key, StoredRow]:
    """Insert the rows that no unique constraint knows yet; returns the row of each
    key, by its values of `unique`.

    All rows have the same columns; those of `now` are set to the transaction's time.  Rows are
    sorted by the columns of the constraint `unique`, so that two processes which insert the same
    rows wait for each other and do not deadlock.
    """
    if not rows:
        return {}
    ordered = sorted(rows, key=lambda row: tuple(row[name] for name in unique))
    names = tuple(ordered[0])
    statement = _statement(table, names, unique, now)
    arrays = {name: _array(table, name, [row[name] for row in ordered]) for name in names}
    wanted = {tuple(row[name] for name in unique) for row in ordered}
    found: dict[Key, StoredRow] = {}
    for _ in range(LOOKS):
        for row_id, added, *key in connection.execute(statement, arrays):
            found.setdefault(tuple(key), StoredRow(row_id, added))
        if wanted <= found.keys():
            return found
    raise RuntimeError(
        f"{table.name}: expected every row to be stored, {len(wanted - found.keys())} are missing"
    )


def _array(table: sa.Table, name: str, values: list[Any]) -> list[Any]:
    if isinstance(table.c[name].type, JSONB):
        return [json.dumps(value, allow_nan=False) for value in values]
    return values


@cache
def _statement(
    table: sa.Table, names: tuple[str, ...], unique: tuple[str, ...], now: tuple[str, ...]
) -> sa.TextClause:
    """One statement: rows that are added, and rows that were there when it began."""
    [row_id] = table.primary_key.columns.keys()
    types = {name: table.c[name].type for name in names}
    sent = {name: sa.Text() if isinstance(kind, JSONB) else kind for name, kind in types.items()}
    arrays = ", ".join(f"CAST(:{name} AS {_sql(kind)}[])" for name, kind in sent.items())
    values = ", ".join(
        [f"CAST({name} AS {_sql(kind)})" for name, kind in types.items()] + ["now()" for _ in now]
    )
    keys = ", ".join(unique)
    text = f"""
        WITH given AS (SELECT * FROM unnest({arrays}) AS given ({", ".join(names)})),
          added AS (
            INSERT INTO {table.name} ({", ".join((*names, *now))}) SELECT {values} FROM given
            ON CONFLICT DO NOTHING RETURNING {row_id} AS row_id, {keys}
          )
        SELECT row_id, true, {keys} FROM added
        UNION ALL
        SELECT {table.name}.{row_id}, false, {keys} FROM {table.name}
          JOIN (SELECT DISTINCT {keys} FROM given) AS keys USING ({keys})
        """  # noqa: S608 (made of names of our tables)
    parameters = [sa.bindparam(name, type_=ARRAY(kind)) for name, kind in sent.items()]
    return sa.text(text).bindparams(*parameters)


def _sql(kind: sa.types.TypeEngine[Any]) -> str:
    return str(kind.compile(dialect=_DIALECT))
