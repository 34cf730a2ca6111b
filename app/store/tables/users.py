"""Tables of users: accounts, tokens, their saved filters, and the log of their actions."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from app.store.tables.base import created_at, id_column, metadata, one_of, reference

users = sa.Table(
    "users",
    metadata,
    id_column("user_id"),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("password_hash", sa.Text),
    sa.Column("disabled_at", sa.DateTime(timezone=True)),
    created_at(),
    one_of("role", ("viewer", "reviewer", "operator", "admin")),
)

api_tokens = sa.Table(
    "api_tokens",
    metadata,
    id_column("api_token_id"),
    reference("users.user_id"),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("token_hash", sa.Text, nullable=False, unique=True),
    sa.Column("scopes", JSONB, nullable=False, server_default="[]"),
    sa.Column(
        "hint", sa.Text, nullable=False, server_default=""
    ),  # its first characters, to tell it from others
    sa.Column("expires_at", sa.DateTime(timezone=True)),
    sa.Column("last_used_at", sa.DateTime(timezone=True)),
    sa.Column("revoked_at", sa.DateTime(timezone=True)),
    created_at(),
)

saved_filters = sa.Table(
    "saved_filters",
    metadata,
    id_column("saved_filter_id"),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column(
        "page", sa.Text, nullable=False, server_default=""
    ),  # endpoint of the list that the view is of
    sa.Column(
        "query", sa.Text, nullable=False, server_default=""
    ),  # query of its URL: filter, columns and order
    reference("users.user_id", null=True, index=False),
    created_at(),
)

audit_events = sa.Table(
    "audit_events",
    metadata,
    id_column("audit_event_id"),
    reference("users.user_id", null=True),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("details", JSONB, nullable=False, server_default="{}"),
    created_at(),
    sa.Index(
        "ix_audit_events_created_at", sa.text("created_at DESC"), sa.text("audit_event_id DESC")
    ),
    sa.Index("ix_audit_events_subject", "subject"),
)
