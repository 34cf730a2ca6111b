"""STORE: datasets and reviews as command lines and programs list them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from app.store.postgres import row_columns
from app.store.tables import exports, reviews, users


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """One dataset that was made."""

    export_id: UUID
    name: str | None
    """Given where it was made; None if none."""
    format: str
    where: str
    rows: int
    directory: str
    created_at: datetime
    stale_at: datetime | None
    """Time at which a verdict that its rows rest on first came out otherwise; None
    while all stand.
    """
    stale_reason: str | None


@dataclass(frozen=True, kw_only=True)
class Review:
    """One opinion of a person."""

    review_id: UUID
    evaluation_id: UUID
    name: str | None
    """Name of the user; None where the account is gone, and for requests of this
    machine without users.
    """
    label: str
    verdict: str | None
    """Label that the evaluation has by it; None for opinions that leave the detectors' in force."""
    hack_type: str | None
    reason: str
    withdraws: UUID | None
    """Review that this one takes back."""
    created_at: datetime


DATASETS = sa.select(
    *row_columns.of(Dataset, exports, where=exports.c.where_text, rows=exports.c.row_count)
)
"""Columns of Dataset."""


def datasets(connection: sa.Connection, *, stale: bool = False, limit: int = 50) -> list[Dataset]:
    """The latest datasets, newest first; `stale`: only those with changed verdicts."""
    query = DATASETS.order_by(exports.c.created_at.desc(), exports.c.export_id.desc()).limit(limit)
    if stale:
        query = query.where(exports.c.stale_at.is_not(None))
    return [Dataset(**row) for row in connection.execute(query).mappings()]


def opinions(
    connection: sa.Connection, *, evaluation_id: UUID | None = None, limit: int | None = 50
) -> list[Review]:
    """The latest reviews, newest first: of all evaluations, or of one.  `limit` None: all."""
    joined = reviews.outerjoin(users, users.c.user_id == reviews.c.user_id)
    query = sa.select(*row_columns.of(Review, reviews, users)).select_from(joined)
    if evaluation_id is not None:
        query = query.where(reviews.c.evaluation_id == evaluation_id)
    ordered = query.order_by(reviews.c.created_at.desc(), reviews.c.review_id.desc()).limit(limit)
    return [Review(**row) for row in connection.execute(ordered).mappings()]
