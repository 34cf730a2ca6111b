"""STORE: deletion of old data: the timelines of profiles, which are nearly all of the database's
size, and with them the code that compilers made of kernels.

Measurements, verdicts, kernel tables and sources stay: everything can still be judged, exported and
looked at, but for the timeline viewer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from app.store import tables
from app.store.postgres import moments
from app.store.postgres.database import Database

BATCH = 500
"""Rows deleted in one transaction: no lock is held for long, and an interruption loses little."""

_p = tables.profiles.c


@dataclass(frozen=True, kw_only=True)
class Timelines:
    """Some of the stored timelines."""

    number: int
    stored_bytes: int
    """Bytes as stored, compressed."""


def old_timelines(connection: sa.Connection, older_than_s: float) -> Timelines:
    """The timelines that `prune_timelines` would delete."""
    size = sa.func.coalesce(sa.func.sum(sa.func.octet_length(_p.body)), 0)
    row = connection.execute(sa.select(sa.func.count(), size).where(_old(older_than_s))).one()
    return Timelines(number=row[0], stored_bytes=int(row[1]))


def prune_timelines(
    database: Database, older_than_s: float, progress: Callable[[int], None] | None = None
) -> int:
    """Delete timelines that are older, and give their room back to the table; how many they were.

    `progress` is told the number of each batch.  Stopped at any time, it keeps the
    deletions made so far.
    """
    deleted = codes = 0
    while number := _delete_batch(database, older_than_s):
        deleted += number
        if progress is not None:
            progress(number)
    while number := _delete_lone_codes(database, older_than_s):
        codes += number
    if deleted or codes:
        vacuum(database)
    return deleted


def vacuum(database: Database) -> None:
    """Let the room of deleted timelines be used again, and the planner know."""
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("VACUUM (ANALYZE) profiles, kernel_codes"))


def _delete_batch(database: Database, older_than_s: float) -> int:
    with database.begin() as connection:
        oldest = (
            sa.select(_p.evaluation_id)
            .where(_old(older_than_s))
            .order_by(_p.created_at)
            .limit(BATCH)
        )
        chosen = list(connection.scalars(oldest))
        connection.execute(
            sa.delete(tables.kernel_codes).where(tables.kernel_codes.c.evaluation_id.in_(chosen))
        )
        return connection.execute(
            sa.delete(tables.profiles).where(_p.evaluation_id.in_(chosen))
        ).rowcount


def _delete_lone_codes(database: Database, older_than_s: float) -> int:
    """Delete some old codes of evaluations without a timeline; how many they were."""
    codes, e = tables.kernel_codes, tables.evaluations.c
    lone = (
        sa.select(codes.c.evaluation_id)
        .join(tables.evaluations, e.evaluation_id == codes.c.evaluation_id)
        .where(e.created_at < moments.ago(older_than_s))
        .where(~sa.exists().where(_p.evaluation_id == codes.c.evaluation_id))
        .limit(BATCH)
    )
    with database.begin() as connection:
        return connection.execute(sa.delete(codes).where(codes.c.evaluation_id.in_(lone))).rowcount


def _old(older_than_s: float) -> sa.ColumnElement[bool]:
    return _p.created_at < moments.ago(older_than_s)
