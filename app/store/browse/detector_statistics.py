"""STORE: findings of detectors: frequency, course over time, evaluations, and
disagreement with people.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import sqlalchemy as sa

from app.domain.verdict import Label
from app.store.evaluation import evaluations as stored
from app.store.postgres import row_columns
from app.store.tables import (
    candidates,
    evaluations,
    findings,
    hourly_counts,
    hourly_findings,
    jobs,
    problems,
    verdicts,
)


@dataclass(frozen=True, kw_only=True)
class Count:
    """Findings of a detector, of one version and label, under verdicts that are current."""

    detector: str
    version: int
    label: str
    findings: int


@dataclass(frozen=True, kw_only=True)
class Day:
    """One day's evaluations and findings."""

    day: datetime
    valid: int
    findings: dict[str, int]
    """Detector → findings that weigh something."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """An evaluation in which a detector found something."""

    finding_id: UUID
    evaluation_id: UUID
    problem_id: UUID
    problem: str
    backend: str
    status: str
    label: str
    """Label of this finding."""
    verdict: str
    """Label of the detectors' verdict."""
    human_verdict: str | None
    measured_speedup: float | None
    summary: str
    created_at: datetime


def counts(connection: sa.Connection) -> list[Count]:
    """Every detector, version and label that was ever found and still stands."""
    c = hourly_findings.c
    total = sa.cast(sa.func.sum(c.findings), sa.BigInteger)
    query = (
        sa.select(c.detector, c.version, c.label, total.label("findings"))
        .group_by(c.detector, c.version, c.label)
        .having(total != 0)
        .order_by(c.detector, c.version, c.label)
    )
    return [Count(**row) for row in connection.execute(query).mappings()]


def days(connection: sa.Connection, number: int) -> list[Day]:
    """The last `number` days (UTC), oldest first, the last one unfinished."""
    today: datetime = connection.execute(
        sa.select(sa.func.date_trunc("day", sa.func.now(), "UTC"))
    ).scalar_one()
    first = today - timedelta(days=number - 1)
    valid = _by_day(
        connection,
        hourly_counts,
        hourly_counts.c.evaluations,
        hourly_counts.c.status != "invalid",
        first,
    )
    f = hourly_findings.c
    day = sa.func.date_trunc("day", f.hour, "UTC")
    query = (
        sa.select(day, f.detector, sa.func.sum(f.findings))
        .where(f.hour >= first, f.label != Label.CLEAN)
        .group_by(day, f.detector)
    )
    found: dict[datetime, dict[str, int]] = {}
    for moment, detector, total in connection.execute(query):
        found.setdefault(moment, {})[detector] = int(total)
    moments = [first + timedelta(days=place) for place in range(number)]
    return [
        Day(day=moment, valid=valid.get(moment, 0), findings=found.get(moment, {}))
        for moment in moments
    ]


def examples(
    connection: sa.Connection,
    detector: str,
    *,
    cleared: bool = False,
    before: UUID | None = None,
    limit: int = 20,
) -> list[Example]:
    """The latest findings of a detector that weigh something, newest first.

    With `cleared` those that a person has called clean: the detector's false alarms."""
    query = (
        sa.select(
            *row_columns.of(
                Example,
                evaluations,
                findings,
                candidates,
                problems,
                problem=problems.c.name,
                verdict=verdicts.c.label,
                measured_speedup=evaluations.c.speedup,
            )
        )
        .select_from(
            findings.join(verdicts, verdicts.c.verdict_id == findings.c.verdict_id)
            .join(evaluations, evaluations.c.evaluation_id == verdicts.c.evaluation_id)
            .join(jobs, jobs.c.job_id == evaluations.c.job_id)
            .join(candidates, candidates.c.candidate_id == jobs.c.candidate_id)
            .join(problems, problems.c.problem_id == jobs.c.problem_id)
        )
        .where(
            findings.c.detector == detector, findings.c.label != Label.CLEAN, verdicts.c.is_current
        )
        .order_by(findings.c.finding_id.desc())
        .limit(limit)
    )
    if cleared:
        query = query.where(evaluations.c.human_verdict == Label.CLEAN)
    if before is not None:
        query = query.where(findings.c.finding_id < before)
    return [Example(**row) for row in connection.execute(query).mappings()]


def sample(
    connection: sa.Connection, number: int
) -> list[tuple[stored.StoredEvaluation, str, tuple[str, ...]]]:
    """The latest judged evaluations with all that a judge asks for, the detectors' label of each,
    and the detectors with findings of that label.
    """
    reasons = (
        sa.select(sa.func.array_agg(findings.c.detector.distinct()))
        .where(findings.c.verdict_id == verdicts.c.verdict_id, findings.c.label == verdicts.c.label)
        .scalar_subquery()
    )
    query = (
        sa.select(evaluations.c.evaluation_id, verdicts.c.label, reasons.label("reasons"))
        .select_from(
            evaluations.join(verdicts, verdicts.c.evaluation_id == evaluations.c.evaluation_id)
        )
        .where(verdicts.c.is_current)
        .order_by(evaluations.c.created_at.desc(), evaluations.c.evaluation_id.desc())
        .limit(number)
    )
    rows = connection.execute(query).all()
    found = [(stored.get(connection, row.evaluation_id), row) for row in rows]
    return [(one, row.label, tuple(row.reasons or ())) for one, row in found if one is not None]


def _by_day(
    connection: sa.Connection,
    table: sa.Table,
    counted: sa.Column[int],
    condition: sa.ColumnElement[bool],
    first: datetime,
) -> dict[datetime, int]:
    day = sa.func.date_trunc("day", table.c.hour, "UTC")
    query = (
        sa.select(day, sa.func.sum(counted)).where(table.c.hour >= first, condition).group_by(day)
    )
    return {moment: int(total) for moment, total in connection.execute(query)}
