"""STORE: facts about the database server, for `assay doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from app.store.postgres import schema_revisions

DURABILITY = ("fsync", "full_page_writes", "synchronous_commit")
"""Settings that must be on: with one of them off, committed results are lost when
the machine is.
"""


@dataclass(frozen=True, kw_only=True)
class ServerFacts:
    """One database."""

    server: str
    revision: str | None
    """Revision of its tables; None where it has no tables of Assay."""
    now: datetime
    size_bytes: int
    is_superuser: bool
    """True if the role may read files and start programs on the server's host."""
    settings: Mapping[str, str]
    """Server settings that DURABILITY names."""


def facts(connection: sa.Connection) -> ServerFacts:
    """Facts about the server now; `now` is its clock, not the transaction's beginning."""
    row = connection.execute(
        sa.select(
            sa.func.current_setting("server_version").label("server"),
            sa.func.clock_timestamp().label("now"),
            sa.func.pg_database_size(sa.func.current_database()).label("size_bytes"),
            (sa.func.current_setting("is_superuser") == "on").label("is_superuser"),
        )
    ).one()
    settings = {
        name: connection.execute(sa.select(sa.func.current_setting(name))).scalar_one()
        for name in DURABILITY
    }
    return ServerFacts(
        server=row.server,
        revision=schema_revisions.found(connection),
        now=row.now,
        size_bytes=row.size_bytes,
        is_superuser=row.is_superuser,
        settings=settings,
    )
