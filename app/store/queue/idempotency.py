"""STORE: the request that each submitter's own key was first used for."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from app.store import tables
from app.store.postgres import bulk, moments
from app.store.postgres.database import Database

KEPT_S = 7 * 24 * 3600
"""Lifetime of a key in seconds; its job is kept under the same key."""
BATCH = 10_000
"""Keys dropped in one transaction."""

_k = tables.idempotency_keys.c


def conflicts(connection: sa.Connection, used: Mapping[str, str]) -> set[str]:
    """Remember the request (a hash) of each key (a hash), and return the keys that
    stood for another one before.
    """
    rows = [{"key_sha256": key, "request_sha256": request} for key, request in used.items()]
    bulk.insert_missing(connection, tables.idempotency_keys, rows, unique=("key_sha256",))
    found = connection.execute(
        sa.select(_k.key_sha256, _k.request_sha256).where(_k.key_sha256.in_(list(used)))
    )
    return {row.key_sha256 for row in found if row.request_sha256 != used[row.key_sha256]}


def expired(connection: sa.Connection) -> int:
    """Number of keys that `forget` would drop."""
    return connection.execute(sa.select(sa.func.count()).where(_expired())).scalar_one()


def forget(database: Database) -> int:
    """Drop keys older than KEPT_S, in batches short enough to block no request; their number."""
    forgotten = 0
    while number := _forget_batch(database):
        forgotten += number
    return forgotten


def _forget_batch(database: Database) -> int:
    oldest = sa.select(_k.key_sha256).where(_expired()).order_by(_k.created_at).limit(BATCH)
    with database.begin() as connection:
        return connection.execute(
            sa.delete(tables.idempotency_keys).where(_k.key_sha256.in_(oldest))
        ).rowcount


def _expired() -> sa.ColumnElement[bool]:
    return _k.created_at < moments.ago(KEPT_S)
