"""STORE: the pages of datasets: the list, and a quick count of attempts that a selection would
keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain.dataset.selection import Kind, Spec
from app.store.browse import paging
from app.store.dataset import export_conditions
from app.store.dataset.listing import DATASETS, Dataset
from app.store.evaluation import evaluation_rows
from app.store.tables import evaluations, exports

LATEST = 100_000
"""Evaluations that a quick count looks at: about half a second's worth."""
QUICK = ("where", "valid", "device", "correct", "clean", "reviewed", "speed", "bound", "coverage")
"""Stages that need no more than the evaluation itself."""


@dataclass(frozen=True, kw_only=True)
class QuickStage:
    """Attempts left after a stage, among the latest evaluations."""

    stage: str
    rows: int
    rule: str


SORTS: dict[str, sa.ColumnElement[Any]] = {
    "created_at": exports.c.export_id,
    "name": exports.c.name,
    "format": exports.c.format,
    "rows": exports.c.row_count,
    "stale_at": exports.c.stale_at,
}
"""Order of the list → its value.  Ids are as old as their rows."""


def page(connection: sa.Connection, window: paging.Window[UUID]) -> paging.Page[Dataset]:
    """Datasets in an order of SORTS, by age as a rule."""
    order = paging.Order(value=SORTS[window.sort or "created_at"], key=exports.c.export_id)

    def load(ids: list[UUID]) -> list[Dataset]:
        found = connection.execute(DATASETS.where(exports.c.export_id.in_(ids))).mappings()
        rows = {row["export_id"]: Dataset(**row) for row in found}
        return [rows[each] for each in ids]

    return order.page(connection, sa.select(exports.c.export_id), load, window)


def total(connection: sa.Connection) -> paging.Total:
    """Number of datasets."""
    return paging.total(connection, sa.select(exports.c.export_id))


def quick_funnel(
    connection: sa.Connection,
    spec: Spec,
    kind: Kind,
    *,
    policy: str,
    detectors: dict[str, int],
    latest: int = LATEST,
) -> Sequence[QuickStage]:
    """Attempts left after each stage that the evaluation itself decides, of the latest evaluations;
    the device class is that of most of them.

    Stages that need texts or other attempts (extraction, near-duplicates, choice) are not counted
    here, nor is a source looked up among other evaluations of it.
    """
    oldest = connection.scalar(
        sa.select(evaluations.c.created_at)
        .order_by(evaluations.c.created_at.desc())
        .offset(latest)
        .limit(1)
    )
    recent = sa.true() if oldest is None else evaluations.c.created_at > oldest
    connection.execute(sa.text("SET LOCAL statement_timeout = '10s'"))
    device = export_conditions.device_of(connection, spec, datetime.now(UTC), recent)
    conditions = export_conditions.conditions(
        spec, kind, policy=policy, detectors=detectors, device=device
    )
    stages = [stage for stage in conditions if stage.name in QUICK]
    counts = [
        sa.func.count().filter(sa.and_(*(stage.keeps for stage in stages[:number])))
        for number in range(1, len(stages) + 1)
    ]
    query = sa.select(sa.func.count(), *counts).select_from(evaluation_rows.JOINED).where(recent)
    first, *left = connection.execute(query).one()
    of = "every evaluation" if oldest is None else f"the latest {latest:,} evaluations"
    found = [QuickStage(stage="latest", rows=first, rule=f"attempts of {of}")]
    return found + [
        QuickStage(stage=stage.name, rows=number, rule=stage.rule)
        for stage, number in zip(stages, left, strict=True)
    ]
