"""STORE: submissions that their senders have named: each counts once among those that share a job,
though its request is sent again after a lost answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import sqlalchemy as sa

from app.store import tables
from app.store.postgres import bulk


def first_seen(connection: sa.Connection, names: Iterable[str]) -> set[str]:
    """The names that are new, kept from now on for `app.store.queue.idempotency.KEPT_S`."""
    by_hash = {hashlib.sha256(f"submission {name}".encode()).hexdigest(): name for name in names}
    rows = [{"key_sha256": key, "request_sha256": key} for key in by_hash]
    known = bulk.insert_missing(connection, tables.idempotency_keys, rows, unique=("key_sha256",))
    return {name for key, name in by_hash.items() if known[key,].added}
