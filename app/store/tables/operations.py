"""The tables of the service: sessions, failed logins, the request that a key was used
for, and state changes of devices.
"""

from __future__ import annotations

import sqlalchemy as sa

from app.store.tables.base import created_at, id_column, metadata, reference

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column(
        "session_hash", sa.Text, primary_key=True
    ),  # hash of the cookie's value, which is kept nowhere
    reference("users.user_id"),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False, index=True),
    created_at(),
)

login_failures = sa.Table(
    "login_failures",
    metadata,
    sa.Column("subject", sa.Text, primary_key=True),  # a hash of a name, an address, or both
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("failed_at", sa.DateTime(timezone=True), nullable=False, index=True),
)

idempotency_keys = sa.Table(
    "idempotency_keys",
    metadata,
    sa.Column("key_sha256", sa.Text, primary_key=True),
    sa.Column(
        "request_sha256", sa.Text, nullable=False
    ),  # the request that the key was first used for
    created_at(),
    sa.Index("ix_idempotency_keys_created_at", "created_at"),
)

device_events = sa.Table(
    "device_events",
    metadata,
    id_column("device_event_id"),
    reference("devices.device_id"),
    sa.Column("state", sa.Text, nullable=False),  # the new state
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("changed_by", sa.Text, nullable=False),  # a user's name, or the worker's
    created_at(),
)
