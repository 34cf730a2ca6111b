"""STORE: datasets and the evaluations they were made of, so that a changed verdict
can name the datasets it touches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

import psycopg
import sqlalchemy as sa

from app.domain.request import check_text
from app.store.tables import export_rows, exports

BLOCK_ROWS = 5_000
"""Sent at a time: to send each on its own takes five times as long."""


@dataclass(frozen=True, kw_only=True)
class Export:
    """A dataset that was made."""

    export_id: UUID
    format: str
    where_text: str
    directory: str
    row_count: int
    manifest: dict[str, Any]
    created_at: datetime
    stale_at: datetime | None = None
    """Time when the verdict of one of its evaluations first changed."""
    stale_reason: str | None = None
    name: str | None = None
    description: str | None = None


LONGEST_NAME, LONGEST_DESCRIPTION = 100, 5_000
"""Characters."""


def describe(connection: sa.Connection, export_id: UUID, *, name: str, description: str) -> None:
    """Set the name and the description of a dataset; empty texts remove them.  Raises
    ValueError for texts that are too long, or that PostgreSQL does not keep.
    """
    for noun, text, most in (
        ("name", name, LONGEST_NAME),
        ("description", description, LONGEST_DESCRIPTION),
    ):
        check_text(noun, text)
        if len(text) > most:
            raise ValueError(f"{noun}: expected at most {most} characters, got {len(text)}")
    values = {"name": name.strip() or None, "description": description.strip() or None}
    connection.execute(sa.update(exports).where(exports.c.export_id == export_id).values(values))


def add(
    connection: sa.Connection,
    *,
    export_id: UUID,
    format: str,  # noqa: A002 (the column's name)
    where_text: str,
    directory: str,
    manifest: dict[str, Any],
    evaluation_ids: Iterable[UUID | str],
) -> None:
    """Record a dataset and the evaluations behind its rows, each once."""
    values = {
        "format": format,
        "where_text": where_text,
        "directory": directory,
        "manifest": manifest,
    }
    connection.execute(
        sa.insert(exports).values(export_id=export_id, row_count=manifest["rows"], **values)
    )
    raw = connection.connection.driver_connection
    assert isinstance(raw, psycopg.Connection)
    with raw.cursor() as cursor, cursor.copy(_COPY) as copy:
        numbered = enumerate(evaluation_ids)
        while block := [
            f"{export_id}\t{index}\t{one}\n" for index, one in islice(numbered, BLOCK_ROWS)
        ]:
            copy.write("".join(block))


_COPY = "COPY export_rows (export_id, row_index, evaluation_id) FROM STDIN"


def get(connection: sa.Connection, export_id: UUID) -> Export | None:
    """The dataset with this id; None if it does not exist."""
    record = (
        connection.execute(sa.select(exports).where(exports.c.export_id == export_id))
        .mappings()
        .one_or_none()
    )
    return None if record is None else Export(**record)


def in_folder(connection: sa.Connection, directory: str) -> UUID | None:
    """The newest dataset that was recorded with that folder; None if there is none."""
    query = sa.select(exports.c.export_id).where(exports.c.directory == directory)
    found: UUID | None = connection.scalar(query.order_by(exports.c.created_at.desc()).limit(1))
    return found


def evaluation_ids(connection: sa.Connection, export_id: UUID) -> list[UUID]:
    """The evaluations behind the rows of an export, in the order of its lineage, each once."""
    query = (
        sa.select(export_rows.c.evaluation_id)
        .where(export_rows.c.export_id == export_id)
        .order_by(export_rows.c.row_index)
    )
    return list(connection.scalars(query))
