"""STORE: the page of one evaluation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain.evaluation import Evaluation
from app.domain.verdict import Finding, Label, Verdict
from app.store.browse import job
from app.store.evaluation import evaluation_json, evaluation_rows
from app.store.postgres import row_columns
from app.store.tables import evaluations, findings, jobs, profiles, reviews, users, verdicts

OTHERS_LISTED = 20
"""Evaluations of the same candidate that a page names."""


@dataclass(frozen=True, kw_only=True)
class Review:
    """A person's review of an evaluation."""

    review_id: UUID
    reviewer: str
    label: str
    verdict: str | None
    hack_type: str | None
    reason: str
    withdraws: UUID | None
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Believed:
    """Verdict and reviews of an evaluation."""

    verdict: Verdict | None
    """The detectors'; None only where judging has not happened yet."""
    judged_at: datetime | None
    human: Label | None
    """The label that a person gave and that counts; None where the detectors' does."""
    reviews: tuple[Review, ...]
    """Oldest first."""

    @property
    def label(self) -> Label | None:
        """The label that counts: a person's, else the detectors'."""
        return self.human or (self.verdict.label if self.verdict else None)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The detectors' findings; none before judging."""
        return self.verdict.findings if self.verdict else ()

    @property
    def effective(self) -> Verdict | None:
        """The detectors' verdict with the label that counts."""
        return self.verdict and replace(self.verdict, label=self.human or self.verdict.label)


NOTHING = Believed(verdict=None, judged_at=None, human=None, reviews=())
"""Value for turns without an evaluation."""


@dataclass(frozen=True, kw_only=True)
class Other:
    """Another evaluation of the same candidate."""

    evaluation_id: UUID
    status: str
    label: str | None
    speedup: float | None
    device_name: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class EvaluationPage:
    """One evaluation in full."""

    evaluation_id: UUID
    job: job.JobPage
    evaluation: Evaluation
    believed: Believed
    worker: str
    attempt: int
    baseline: str
    queue_ms: float
    created_at: datetime
    timeline_bytes: int | None
    """Size of the stored timeline before compression; None where there is none."""


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """A stored timeline, without its body."""

    codec: str
    raw_bytes: int
    stored_bytes: int
    """Compressed."""


def read(connection: sa.Connection, evaluation_id: UUID) -> EvaluationPage | None:
    """The page of one evaluation; None where there is none of that id."""
    query = (
        sa.select(evaluations, profiles.c.raw_bytes.label("timeline_bytes"))
        .select_from(
            evaluations.outerjoin(profiles, profiles.c.evaluation_id == evaluations.c.evaluation_id)
        )
        .where(evaluations.c.evaluation_id == evaluation_id)
    )
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        return None
    asked = job.read(connection, row["job_id"])
    assert asked is not None  # a foreign key says so
    return EvaluationPage(
        evaluation_id=evaluation_id,
        job=asked,
        evaluation=evaluation_json.decode(row["measurement"]),
        believed=believed(connection, evaluation_id),
        worker=row["worker"],
        attempt=row["attempt"],
        baseline=row["baseline"],
        queue_ms=row["queue_ms"],
        created_at=row["created_at"],
        timeline_bytes=row["timeline_bytes"],
    )


def latest_of(connection: sa.Connection, candidate_id: UUID) -> UUID | None:
    """The latest evaluation of a candidate."""
    query = sa.select(evaluations.c.evaluation_id).join(jobs, jobs.c.job_id == evaluations.c.job_id)
    return connection.scalar(
        query.where(jobs.c.candidate_id == candidate_id)
        .order_by(evaluations.c.created_at.desc())
        .limit(1)
    )


def believed(connection: sa.Connection, evaluation_id: UUID) -> Believed:
    """Verdict and reviews of an evaluation."""
    current = connection.execute(
        sa.select(verdicts).where(verdicts.c.evaluation_id == evaluation_id, verdicts.c.is_current)
    ).one_or_none()
    said = connection.execute(
        sa.select(*row_columns.of(Review, reviews, reviewer=row_columns.USER))
        .select_from(reviews.outerjoin(users, users.c.user_id == reviews.c.user_id))
        .where(reviews.c.evaluation_id == evaluation_id)
        .order_by(reviews.c.review_id)
    )
    human = connection.scalar(
        sa.select(evaluations.c.human_verdict).where(evaluations.c.evaluation_id == evaluation_id)
    )
    return Believed(
        verdict=None if current is None else _verdict(connection, current),
        judged_at=None if current is None else current.created_at,
        human=None if human is None else Label(human),
        reviews=tuple(Review(**row) for row in said.mappings()),
    )


def _verdict(connection: sa.Connection, current: sa.Row[Any]) -> Verdict:
    found = connection.execute(
        sa.select(findings)
        .where(findings.c.verdict_id == current.verdict_id)
        .order_by(findings.c.finding_id)
    )
    return Verdict(
        label=Label(current.label),
        policy=current.policy,
        detectors=current.detectors,
        findings=tuple(
            Finding(
                detector=row.detector,
                version=row.version,
                label=Label(row.label),
                summary=row.summary,
                evidence=row.evidence,
            )
            for row in found
        ),
    )


def others(connection: sa.Connection, page: EvaluationPage) -> tuple[Other, ...]:
    """Other evaluations of the same candidate on the same problem, newest first:
    other devices, seeds, versions.
    """
    query = (
        sa.select(*row_columns.of(Other, evaluations, label=evaluation_rows.LABEL))
        .select_from(
            evaluations.join(jobs, jobs.c.job_id == evaluations.c.job_id).outerjoin(
                verdicts, evaluation_rows.CURRENT
            )
        )
        .where(
            jobs.c.candidate_id == page.job.candidate_id,
            jobs.c.problem_id == page.job.problem_id,
            evaluations.c.evaluation_id != page.evaluation_id,
        )
        .order_by(evaluations.c.created_at.desc())
        .limit(OTHERS_LISTED)
    )
    return tuple(Other(**row) for row in connection.execute(query).mappings())


def timeline(connection: sa.Connection, evaluation_id: UUID) -> Timeline | None:
    """Timeline stored for an evaluation; None where there is none."""
    query = sa.select(
        profiles.c.codec,
        profiles.c.raw_bytes,
        sa.func.octet_length(profiles.c.body).label("stored_bytes"),
    ).where(profiles.c.evaluation_id == evaluation_id)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else Timeline(**row)


def timeline_piece(
    connection: sa.Connection, evaluation_id: UUID, start: int, length: int
) -> bytes:
    """Bytes of a stored timeline, still compressed: the column is stored plainly, so
    that a slice reads a slice.
    """
    piece = sa.func.substring(profiles.c.body, start + 1, length)
    found = connection.execute(
        sa.select(piece).where(profiles.c.evaluation_id == evaluation_id)
    ).scalar_one_or_none()
    return b"" if found is None else bytes(found)
