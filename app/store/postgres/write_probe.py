"""STORE: whether PostgreSQL can store anything: its disk may be full, or it may be
read-only, while reads succeed.

Nothing is changed.  A row is locked, which is logged and committed as a change is; and as many
bytes as a few jobs have are written beside the tables and thrown away, because room in pages and
log files that PostgreSQL has already would hide a full disk from a single small row.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from app.store.postgres.database import (
    Database,
    DatabaseUnavailableError,
    DiskFullError,
    ReadOnlyError,
)

FULL = "its disk is full"
SPILLED = 128
"""Rows of 8 kB each that are written to the disk: one with less room than this
megabyte counts as full.
"""
LEAST_WORK_MEM = "64kB"
"""PostgreSQL's smallest memory for a step of a query: more rows are put in a file."""

_LOCK = sa.text("SELECT version_num FROM alembic_version FOR NO KEY UPDATE SKIP LOCKED")
_SPILL = sa.text(
    "WITH lines AS MATERIALIZED (SELECT repeat('x', 8000) AS line FROM generate_series(1, :rows))"
    " SELECT count(line) FROM lines"
)


def refusal(database: Database) -> str | None:
    """Reason for which PostgreSQL stores nothing; None where it does.  About 2 ms.

    Raises DatabaseUnavailableError where it does not answer at all."""
    try:
        with database.begin() as connection:
            connection.execute(sa.text("SET LOCAL temp_tablespaces = ''"))  # the disk of the tables
            connection.execute(sa.text(f"SET LOCAL work_mem = '{LEAST_WORK_MEM}'"))
            connection.execute(_SPILL, {"rows": SPILLED})
            connection.execute(_LOCK)
    except DiskFullError:
        return FULL
    except ReadOnlyError as error:
        return str(error)
    except DatabaseUnavailableError:
        raise
    except DBAPIError as error:
        return str(error.orig).strip().splitlines()[0]
    return None
