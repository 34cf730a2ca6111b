"""STORE: evaluations with their verdicts and profiles.  One evaluation a job, ever;
verdicts are only added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import sqlalchemy as sa
import zstandard
from sqlalchemy.dialects.postgresql import aggregate_order_by

from app.domain import ids, result, reward
from app.domain.evaluation import Evaluation, Status
from app.domain.evidence import KernelCode
from app.domain.job import JobState
from app.domain.verdict import Finding, Label, Subject, Verdict
from app.store import tables
from app.store.evaluation import evaluation_json, evaluation_rows, kernel_codes
from app.store.postgres import jsonb
from app.store.postgres.database import Database
from app.store.queue import jobs, leases
from app.store.trajectory import problems

ZSTD_LEVEL = 3
"""A 5 MB timeline takes 21 ms at 3 and 117 ms at 9, for a tenth less room."""

_e = tables.evaluations.c
_j = tables.jobs.c
_v = tables.verdicts.c
_f = tables.findings.c

_FIELDS = ("detector", "version", "label", "summary", "evidence")
_ENTRY = [
    sa.literal_column(f"'{name}'") if key else _f[name] for name in _FIELDS for key in (True, False)
]
_FOUND = (
    sa.select(
        sa.func.jsonb_agg(aggregate_order_by(sa.func.jsonb_build_object(*_ENTRY), _f.finding_id))
    )
    .where(_f.verdict_id == _v.verdict_id)
    .scalar_subquery()
    .label("findings")
)
"""Findings of a verdict, in order of discovery; NULL if there are none."""


@dataclass(frozen=True, kw_only=True)
class StoredEvaluation:
    """An evaluation as it lies in the table."""

    evaluation_id: UUID
    job_id: UUID
    backend: str
    """Language that the candidate claims to be written in; read by the judge."""
    evaluation: Evaluation
    candidate: bytes
    reference: bytes
    """Both sources: detectors may read them."""

    @property
    def subject(self) -> Subject:
        """Input of the judge."""
        return Subject(
            evaluation=self.evaluation,
            backend=self.backend,
            candidate=self.candidate,
            reference=self.reference,
        )


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """Everything that a job's result is made of."""

    job_id: UUID
    state: JobState
    baseline: str
    evaluation_id: UUID | None = None
    evaluation: Evaluation | None = None
    verdict: Verdict | None = None
    queue_ms: float | None = None
    error: dict[str, str] | None = None
    """Fault of Assay by which the job failed: kind, message, log."""

    def result(self, url: str | None = None, score: str = reward.DEFAULT) -> result.Result:
        """The JSON shape that all interfaces return; `score` names the reward that is its score."""
        return result.build(
            job_id=self.job_id,
            state=self.state,
            evaluation=self.evaluation,
            verdict=self.verdict,
            baseline=self.baseline,
            queue_ms=self.queue_ms,
            error=self.error,
            url=url,
            score=score,
        )


def add(
    connection: sa.Connection,
    lease: leases.Lease,
    *,
    worker: str,
    evaluation: Evaluation,
    verdict: Verdict,
    timeline: bytes = b"",
    codes: tuple[KernelCode, ...] = (),
) -> UUID | None:
    """Store the result of a claim and finish its job, all or nothing in the caller's transaction.

    None, and nothing is stored, where the lease is lost: the result belongs to its present holder.
    """
    finished = leases.finish(connection, lease)
    if finished is None:
        return None
    evaluation_id = ids.new_id()
    row = {
        "evaluation_id": evaluation_id,
        "job_id": lease.job.job_id,
        "attempt": lease.job.attempt,
        "worker": worker,
        "baseline": finished.baseline,
        "queue_ms": finished.queue_ms,
        "total_ms": finished.total_ms,
        **columns(evaluation),
    }
    connection.execute(sa.insert(tables.evaluations), row)
    _insert_verdict(connection, evaluation_id, verdict)
    if evaluation.operators is not None:
        problems.set_operators(connection, lease.job.job_id, evaluation.operators)
    if timeline:
        _insert_timeline(connection, evaluation_id, timeline)
    if (
        codes and evaluation.status is Status.PASSED
    ):  # code of wrong kernels would fill the database to little use
        kernel_codes.add(connection, evaluation_id, codes)
    return evaluation_id


def add_verdict(connection: sa.Connection, evaluation_id: UUID, verdict: Verdict) -> UUID:
    """A new current verdict; the one before stays as history."""
    locked = (
        sa.select(_e.evaluation_id)
        .where(_e.evaluation_id == evaluation_id)
        .with_for_update(key_share=True)
    )
    connection.execute(locked).one()  # two judges take turns
    connection.execute(
        sa.update(tables.verdicts)
        .where(_v.evaluation_id == evaluation_id, _v.is_current)
        .values(is_current=False)
    )
    return _insert_verdict(connection, evaluation_id, verdict)


def get(connection: sa.Connection, evaluation_id: UUID) -> StoredEvaluation | None:
    """The evaluation with this id; None if it does not exist."""
    row = connection.execute(_stored().where(_e.evaluation_id == evaluation_id)).one_or_none()
    return None if row is None else _as_stored(row)


def iterate(database: Database, batch: int = 200) -> Iterator[StoredEvaluation]:
    """Every evaluation, oldest first, in short transactions: the caller may write
    between two of them.
    """
    page: Sequence[StoredEvaluation] = ()
    while True:
        query = _stored().order_by(_e.evaluation_id).limit(batch)
        if page:
            query = query.where(_e.evaluation_id > page[-1].evaluation_id)
        with database.begin() as connection:
            page = [_as_stored(row) for row in connection.execute(query)]
        if not page:
            return
        yield from page


def verdict(connection: sa.Connection, evaluation_id: UUID) -> Verdict | None:
    """The evaluation's verdict in force."""
    query = sa.select(_v.label, _v.policy, _v.detectors, _FOUND).where(
        _v.evaluation_id == evaluation_id, _v.is_current
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else _as_verdict(row)


def timeline(connection: sa.Connection, evaluation_id: UUID) -> bytes | None:
    """Chrome-trace JSON of an evaluation, as zstd: browsers accept it with
    `Content-Encoding: zstd`.
    """
    profiles = tables.profiles.c
    query = sa.select(profiles.body).where(profiles.evaluation_id == evaluation_id)
    return connection.execute(query).scalar_one_or_none()


def job_records(connection: sa.Connection, job_ids: Sequence[UUID]) -> dict[UUID, JobRecord]:
    """Record of each of the jobs that exist."""
    query = (
        sa.select(
            _j.job_id,
            _j.state,
            _j.options["baseline"].astext.label("baseline"),
            _j.error_kind,
            _j.error_message,
            _e.evaluation_id,
            _e.measurement,
            _e.queue_ms,
            _e.human_verdict,
            _v.label,
            _v.policy,
            _v.detectors,
            _FOUND,
        )
        .select_from(
            tables.jobs.outerjoin(tables.evaluations).outerjoin(
                tables.verdicts, evaluation_rows.CURRENT
            )
        )
        .where(jobs.id_in(job_ids))
    )
    return {row.job_id: _as_job_record(row) for row in connection.execute(query)}


def columns(evaluation: Evaluation) -> dict[str, Any]:
    """Columns for lists and filters, beside the whole measurement."""
    timing, profile = evaluation.timing, evaluation.profile
    device = timing.device if timing else None
    return {
        "status": evaluation.status,
        "valid": evaluation.valid,
        "compiled": evaluation.compiled,
        "correct": evaluation.correct,
        "speedup": timing.speedup if timing else None,
        "speedup_ci_low": timing.ci_low if timing else None,
        "speedup_ci_high": timing.ci_high if timing else None,
        "device_speedup": device.speedup if device else None,
        "device_speedup_ci_low": device.ci_low if device else None,
        "device_speedup_ci_high": device.ci_high if device else None,
        "reference_us": timing.reference_us if timing else None,
        "candidate_us": evaluation.candidate_us,
        "coverage_time": profile.coverage_time if profile else None,
        "coverage_count": profile.coverage_count if profile else None,
        "device_class": evaluation.environment.device_class,
        "device_name": evaluation.environment.device_name,
        "protocol": evaluation.protocol,
        "seed": evaluation.seed,
        "measurement": evaluation_json.encode(evaluation),
    }


def _insert_verdict(connection: sa.Connection, evaluation_id: UUID, verdict: Verdict) -> UUID:
    verdict_id = ids.new_id()
    row = {
        "verdict_id": verdict_id,
        "evaluation_id": evaluation_id,
        "label": verdict.label,
        "policy": verdict.policy,
        "detectors": verdict.detectors,
    }
    connection.execute(sa.insert(tables.verdicts), row)
    findings = [
        {
            "finding_id": ids.new_id(),
            "verdict_id": verdict_id,
            "detector": finding.detector,
            "version": finding.version,
            "label": finding.label,
            "summary": jsonb.plain(finding.summary),
            "evidence": jsonb.plain(finding.evidence),
        }
        for finding in verdict.findings
    ]
    if findings:
        connection.execute(sa.insert(tables.findings), findings)
    return verdict_id


def _insert_timeline(connection: sa.Connection, evaluation_id: UUID, raw: bytes) -> None:
    row = {
        "evaluation_id": evaluation_id,
        "kind": "chrome_trace",
        "codec": "zstd",
        "raw_bytes": len(raw),
        "body": zstandard.compress(raw, ZSTD_LEVEL),
    }
    connection.execute(sa.insert(tables.profiles), row)


def _stored() -> sa.Select[Any]:
    joined = tables.evaluations.join(tables.jobs).join(tables.candidates).join(tables.problems)
    sources = (tables.candidates.c.source, tables.problems.c.reference)
    columns = (_e.evaluation_id, _e.job_id, tables.candidates.c.backend, _e.measurement, *sources)
    return sa.select(*columns).select_from(joined)


def _as_stored(row: sa.Row[Any]) -> StoredEvaluation:
    return StoredEvaluation(
        evaluation_id=row.evaluation_id,
        job_id=row.job_id,
        backend=row.backend,
        evaluation=evaluation_json.decode(row.measurement),
        candidate=row.source,
        reference=row.reference,
    )


def _as_job_record(row: Any) -> JobRecord:
    error = (
        {"kind": row.error_kind, "message": row.error_message or "", "log": ""}
        if row.error_kind
        else None
    )
    verdict = None if row.label is None else _as_verdict(row)
    if verdict is not None and row.human_verdict is not None:
        verdict = replace(verdict, label=Label(row.human_verdict))  # a person's label counts more
    return JobRecord(
        job_id=row.job_id,
        state=JobState(row.state),
        baseline=row.baseline,
        evaluation_id=row.evaluation_id,
        evaluation=evaluation_json.decode(row.measurement) if row.evaluation_id else None,
        verdict=verdict,
        queue_ms=row.queue_ms,
        error=error,
    )


def _as_verdict(row: Any) -> Verdict:
    return Verdict(
        label=Label(row.label),
        policy=row.policy,
        detectors=row.detectors,
        findings=tuple(
            Finding(**{**each, "label": Label(each["label"])}) for each in row.findings or ()
        ),
    )
