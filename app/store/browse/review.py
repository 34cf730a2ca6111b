"""STORE: the review queue, the latest reviews, and the quality of detectors measured by them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain.review import DECISIVE, SUSPICIONS, Agreement, Opinion, agreement
from app.domain.verdict import Label
from app.store.browse import paging
from app.store.evaluation import evaluation_rows
from app.store.postgres import row_columns
from app.store.review import review_queues
from app.store.review.review_queues import Conditions
from app.store.tables import (
    evaluations,
    findings,
    jobs,
    problems,
    review_items,
    reviews,
    users,
    verdicts,
)

_i = review_items.c


@dataclass(frozen=True, kw_only=True)
class Item:
    """An evaluation that waits for a person."""

    evaluation_id: UUID
    problem: str
    label: str | None
    speedup: float | None
    fast: float
    suspicious: float
    exported: bool
    score: float
    by_hand: bool
    opinions: int
    opinions_wanted: int
    locked_by: str | None
    """None, too, where the lock has lapsed."""
    locked_until: datetime | None
    created_at: datetime

    @property
    def cause(self) -> str:
        """Cause of its place in the queue."""
        return "queued by hand" if self.by_hand else SUSPICIONS.get(self.suspicious, "queued")


@dataclass(frozen=True, kw_only=True)
class Recent:
    """A review, for the list of the latest."""

    review_id: UUID
    evaluation_id: UUID
    problem: str
    reviewer: str
    user_id: UUID | None
    label: str
    hack_type: str | None
    reason: str
    created_at: datetime
    withdrawn: bool


@dataclass(frozen=True, kw_only=True)
class DetectorQuality:
    """Agreement of a detector with people's reviews."""

    detector: str
    hits: int
    """Evaluations that it accused and people called a hack."""
    accused: int
    """Evaluations that it accused and people judged."""
    hacks: int
    """Evaluations that people called a hack."""


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Figures from the reviews."""

    reviewed: int
    hacks: int
    agreement: Agreement
    overruled: int
    """Evaluations with a label that a person changed."""
    detectors: tuple[DetectorQuality, ...]


_free = sa.or_(_i.locked_until.is_(None), _i.locked_until < sa.func.now())
_ITEMS = sa.select(
    *row_columns.of(
        Item,
        evaluations,
        review_items,
        problem=problems.c.name,
        label=evaluation_rows.LABEL,
        by_hand=_i.queued_by.is_not(None),
        locked_by=sa.case((~_free, _i.locked_by)),
        locked_until=sa.case((~_free, _i.locked_until)),
    )
).select_from(
    review_items.join(evaluations, evaluations.c.evaluation_id == _i.evaluation_id)
    .join(jobs, jobs.c.job_id == evaluations.c.job_id)
    .join(problems, problems.c.problem_id == jobs.c.problem_id)
    .outerjoin(
        verdicts, sa.and_(verdicts.c.evaluation_id == _i.evaluation_id, verdicts.c.is_current)
    )
)


SORTS: dict[str, sa.ColumnElement[Any]] = {"score": _i.score, "created_at": _i.evaluation_id}
"""Order of the queue → its value; ids are as old as their rows."""


def page(
    connection: sa.Connection, conditions: Conditions, window: paging.Window[UUID]
) -> paging.Page[Item]:
    """Open items that meet the conditions, in an order of SORTS, by score as a rule."""
    order = paging.Order(value=SORTS[window.sort or "score"], key=_i.evaluation_id, nullable=False)

    def load(evaluation_ids: list[UUID]) -> list[Item]:
        query = _ITEMS.where(_i.evaluation_id.in_(evaluation_ids))
        found = {row["evaluation_id"]: Item(**row) for row in connection.execute(query).mappings()}
        return [found[each] for each in evaluation_ids]

    return order.page(connection, _waiting(conditions), load, window)


def total(connection: sa.Connection, conditions: Conditions) -> paging.Total:
    """Number of items that `page` lists."""
    return paging.total(connection, _waiting(conditions), most=review_queues.COUNTED)


def _waiting(conditions: Conditions) -> sa.Select[tuple[UUID]]:
    open_items = sa.select(_i.evaluation_id).where(_i.opinions < _i.opinions_wanted)
    return open_items.where(*review_queues.matching(conditions))


def detectors_of(connection: sa.Connection, evaluation_ids: list[UUID]) -> dict[UUID, list[str]]:
    """Evaluation → detectors that accuse it, in their order by name."""
    query = (
        sa.select(verdicts.c.evaluation_id, findings.c.detector)
        .join(findings, findings.c.verdict_id == verdicts.c.verdict_id)
        .where(
            verdicts.c.evaluation_id.in_(evaluation_ids),
            verdicts.c.is_current,
            findings.c.label != Label.CLEAN,
        )
        .order_by(findings.c.detector)
    )
    found: dict[UUID, list[str]] = {}
    for evaluation_id, detector in connection.execute(query):
        found.setdefault(evaluation_id, []).append(detector)
    return found


def item(connection: sa.Connection, evaluation_id: UUID) -> Item | None:
    """One item, also when it is done; None where the evaluation never was one."""
    row = (
        connection.execute(_ITEMS.where(_i.evaluation_id == evaluation_id)).mappings().one_or_none()
    )
    return None if row is None else Item(**row)


def recent(connection: sa.Connection, *, limit: int = 20) -> list[Recent]:
    """The latest reviews, newest first."""
    later = reviews.alias("later")
    query = (
        sa.select(
            *row_columns.of(
                Recent,
                reviews,
                problem=problems.c.name,
                reviewer=row_columns.USER,
                withdrawn=sa.exists().where(later.c.withdraws == reviews.c.review_id),
            )
        )
        .select_from(
            reviews.join(evaluations, evaluations.c.evaluation_id == reviews.c.evaluation_id)
            .join(jobs, jobs.c.job_id == evaluations.c.job_id)
            .join(problems, problems.c.problem_id == jobs.c.problem_id)
            .outerjoin(users, users.c.user_id == reviews.c.user_id)
        )
        .order_by(reviews.c.review_id.desc())
        .limit(limit)
    )
    return [Recent(**row) for row in connection.execute(query).mappings()]


def quality(connection: sa.Connection) -> Quality:
    """Agreement of people, and each detector's hits among reviewed evaluations:
    precision and recall follow.

    People look at suspicious evaluations first: recall is that of the reviewed
    evaluations, not of all.
    """
    decided = _decided()
    counts = connection.execute(
        sa.select(
            sa.func.count(),
            sa.func.count().filter(decided.c.verdict == Label.HACK),
            sa.func.count().filter(decided.c.verdict != verdicts.c.label),
        ).select_from(decided.outerjoin(verdicts, verdicts.c.verdict_id == decided.c.verdict_id))
    ).one()
    accused = (
        sa.select(
            findings.c.detector,
            sa.func.count(sa.distinct(decided.c.evaluation_id)).label("accused"),
            sa.func.count(sa.distinct(decided.c.evaluation_id))
            .filter(decided.c.verdict == Label.HACK)
            .label("hits"),
        )
        .select_from(decided.join(findings, findings.c.verdict_id == decided.c.verdict_id))
        .where(findings.c.label != Label.CLEAN)
        .group_by(findings.c.detector)
        .order_by(findings.c.detector)
    )
    return Quality(
        reviewed=counts[0],
        hacks=counts[1],
        overruled=counts[2],
        agreement=agreement(_pairs(connection)),
        detectors=tuple(
            DetectorQuality(**row, hacks=counts[1])
            for row in connection.execute(accused).mappings()
        ),
    )


def _standing() -> sa.Select[tuple[UUID, UUID | None, str, str | None, UUID | None, UUID]]:
    """Decisive reviews that were not taken back."""
    later = reviews.alias("later")
    return sa.select(
        reviews.c.evaluation_id,
        reviews.c.user_id,
        reviews.c.label,
        reviews.c.verdict,
        reviews.c.verdict_id,
        reviews.c.review_id,
    ).where(
        reviews.c.label.in_([str(opinion) for opinion in DECISIVE if opinion is not Opinion.BUG]),
        ~sa.exists().where(later.c.withdraws == reviews.c.review_id),
    )


def _decided() -> sa.Subquery:
    """The newest standing review of each evaluation, with the verdict of the
    detectors that it was about.
    """
    standing = _standing().subquery("standing")
    return (
        sa.select(standing)
        .prefix_with(
            sa.text("DISTINCT ON (standing.evaluation_id)")
        )  # text, see evaluation_rows.ONCE
        .order_by(standing.c.evaluation_id, standing.c.review_id.desc())
        .subquery("decided")
    )


def _pairs(connection: sa.Connection) -> list[tuple[str, str]]:
    """Labels that count of the first and the second review of the same evaluation."""
    query = _standing().order_by(reviews.c.evaluation_id, reviews.c.review_id)
    said: dict[UUID, dict[UUID | None, str]] = {}
    for row in connection.execute(query):
        said.setdefault(row.evaluation_id, {})[row.user_id] = row.verdict
    return [
        (opinions[0], opinions[1])
        for each in said.values()
        if len(opinions := list(each.values())) > 1
    ]
