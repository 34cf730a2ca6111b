"""STORE: what each submitter's own key was first used for."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from app.store import bulk, tables

KEPT_S = 7 * 24 * 3600
"""A key is good for this long, in seconds; the job that it named stays, under the same key."""

_k = tables.idempotency_keys.c


def conflicts(connection: sa.Connection, used: Mapping[str, str]) -> set[str]:
    """Remember what each key (a hash) is used for (a hash), and return those that stood for something else before."""
    rows = [{"key_sha256": key, "request_sha256": request} for key, request in used.items()]
    bulk.insert_missing(connection, tables.idempotency_keys, rows, unique=("key_sha256",))
    found = connection.execute(sa.select(_k.key_sha256, _k.request_sha256).where(_k.key_sha256.in_(list(used))))
    return {row.key_sha256 for row in found if row.request_sha256 != used[row.key_sha256]}


def forget(connection: sa.Connection) -> int:
    """Drop keys older than KEPT_S; the number of them."""
    since = sa.func.now() - sa.func.make_interval(0, 0, 0, 0, 0, 0, KEPT_S)
    return connection.execute(sa.delete(tables.idempotency_keys).where(_k.created_at < since)).rowcount
