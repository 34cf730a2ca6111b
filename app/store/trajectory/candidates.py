"""STORE: candidates, addressed by content: one row for each source and backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from app.domain import ids
from app.store import tables
from app.store.postgres import bulk


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One kernel source and the backend that it claims."""

    backend: str
    source: bytes


def add(connection: sa.Connection, candidates: Sequence[Candidate]) -> list[UUID]:
    """Ids of the candidates in their order; those that are not stored yet are."""
    keys = [(ids.sha256(candidate.source), candidate.backend) for candidate in candidates]
    distinct = dict(zip(keys, candidates, strict=True))
    rows = [
        {
            "candidate_id": ids.new_id(),
            "backend": candidate.backend,
            "source": candidate.source,
            "source_sha256": sha256,
        }
        for (sha256, _), candidate in distinct.items()
    ]
    known = bulk.insert_missing(
        connection, tables.candidates, rows, unique=("source_sha256", "backend")
    )
    return [known[key].row_id for key in keys]
