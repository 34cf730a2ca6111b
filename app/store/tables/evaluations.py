"""Tables of measurements and of the detectors' verdicts on them."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from app.domain.evaluation import Status
from app.domain.verdict import Label
from app.store.tables.base import created_at, id_column, metadata, one_of, reference, short_id_index

evaluations = sa.Table(
    "evaluations",
    metadata,
    id_column("evaluation_id"),
    sa.Column(
        "job_id", sa.Uuid, sa.ForeignKey("jobs.job_id"), nullable=False, unique=True
    ),  # one result a job, ever
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("worker", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("valid", sa.Boolean, nullable=False),
    sa.Column("compiled", sa.Boolean, nullable=False),
    sa.Column("correct", sa.Boolean, nullable=False),
    sa.Column("speedup", sa.Double),  # measured, independent of the verdict
    sa.Column("speedup_ci_low", sa.Double),
    sa.Column("speedup_ci_high", sa.Double),
    sa.Column(
        "device_speedup", sa.Double
    ),  # measured; NULL where it was not asked for, or has no value
    sa.Column("device_speedup_ci_low", sa.Double),
    sa.Column("device_speedup_ci_high", sa.Double),
    sa.Column("reference_us", sa.Double),
    sa.Column("candidate_us", sa.Double),
    sa.Column("coverage_time", sa.Double),
    sa.Column("coverage_count", sa.Double),
    sa.Column("baseline", sa.Text, nullable=False),
    sa.Column("device_class", sa.Text, nullable=False),
    sa.Column("device_name", sa.Text, nullable=False),
    sa.Column("protocol", sa.Text, nullable=False),
    sa.Column("seed", sa.Text, nullable=False),
    sa.Column("queue_ms", sa.Double, nullable=False),
    sa.Column("total_ms", sa.Double, nullable=False),
    sa.Column(
        "measurement", JSONB, nullable=False
    ),  # the whole Evaluation, so that it can be judged again
    sa.Column(
        "human_verdict", sa.Text
    ),  # a person's label, over the detectors'; kept by app.store.review.reviews
    created_at(),
    one_of("status", Status),
    one_of("human_verdict", Label),
    sa.CheckConstraint("speedup IS NULL OR (speedup > 0 AND correct)", name="speedup"),
    sa.CheckConstraint("NOT correct OR (valid AND compiled AND status = 'passed')", name="correct"),
    sa.Index(
        "ix_evaluations_created_at_evaluation_id",
        sa.text("created_at DESC"),
        sa.text("evaluation_id DESC"),
    ),
    sa.Index("ix_evaluations_status_created_at", "status", sa.text("created_at DESC")),
    sa.Index(
        "ix_evaluations_reviewed",
        sa.text("created_at DESC"),
        sa.text("evaluation_id DESC"),
        postgresql_where=sa.text("human_verdict IS NOT NULL"),
    ),
    sa.Index(
        "ix_evaluations_speedup",
        sa.text("speedup DESC"),
        sa.text("evaluation_id DESC"),
        postgresql_where=sa.text("speedup IS NOT NULL"),
    ),
    sa.Index(
        "ix_evaluations_speedup_ci_low",
        sa.text("speedup_ci_low DESC"),
        postgresql_where=sa.text("speedup_ci_low IS NOT NULL"),
    ),
    sa.Index(
        "ix_evaluations_candidate_us",
        sa.text("candidate_us DESC"),
        sa.text("evaluation_id DESC"),
        postgresql_where=sa.text("candidate_us IS NOT NULL"),
    ),
    sa.Index(
        "ix_evaluations_coverage_time",
        sa.text("coverage_time DESC"),
        sa.text("evaluation_id DESC"),
        postgresql_where=sa.text("coverage_time IS NOT NULL"),
    ),
    short_id_index("evaluations", "evaluation_id"),
)

profiles = sa.Table(
    "profiles",
    metadata,
    sa.Column(
        "evaluation_id", sa.Uuid, sa.ForeignKey("evaluations.evaluation_id"), primary_key=True
    ),
    sa.Column("kind", sa.Text, nullable=False),  # 'chrome_trace'
    sa.Column("codec", sa.Text, nullable=False),  # 'zstd'
    sa.Column("raw_bytes", sa.Integer, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    created_at(),
)

kernel_codes = sa.Table(
    "kernel_codes",
    metadata,
    sa.Column(
        "evaluation_id", sa.Uuid, sa.ForeignKey("evaluations.evaluation_id"), primary_key=True
    ),
    sa.Column("raw_bytes", sa.Integer, nullable=False),
    sa.Column(
        "body", sa.LargeBinary, nullable=False
    ),  # zstd of JSON: a list of app.domain.evidence.KernelCode
)

verdicts = sa.Table(
    "verdicts",
    metadata,
    id_column("verdict_id"),
    reference("evaluations.evaluation_id"),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("policy", sa.Text, nullable=False),
    sa.Column("detectors", JSONB, nullable=False),  # name → version, every detector that was asked
    sa.Column("is_current", sa.Boolean, nullable=False, server_default=sa.true()),
    created_at(),
    one_of("label", Label),
    sa.Index(
        "uq_verdicts_current", "evaluation_id", unique=True, postgresql_where=sa.text("is_current")
    ),
    sa.Index(
        "ix_verdicts_label", "label", postgresql_where=sa.text("is_current AND label <> 'clean'")
    ),
)

findings = sa.Table(
    "findings",
    metadata,
    id_column("finding_id"),
    reference("verdicts.verdict_id"),
    sa.Column("detector", sa.Text, nullable=False, index=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("summary", sa.Text, nullable=False),
    sa.Column("evidence", JSONB, nullable=False),
    one_of("label", Label),
)
