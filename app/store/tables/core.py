"""The tables of the first day: problems, attempts, jobs, measurements, verdicts.

Source code and model answers are bytes: they hold NUL and lone surrogates, which PostgreSQL's text refuses.
Enumerations are text with a check, so that adding a value is an ordinary migration."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from app.domain.evaluation import Status
from app.domain.job import JobState
from app.domain.review import Opinion
from app.domain.verdict import Label
from app.store.tables.base import created_at, id_column, metadata, one_of, reference, short_id_index

SHARE = "coalesce(run_id, '00000000-0000-0000-0000-000000000000')"
"""Key of the share of the devices that a job takes part in: its run; jobs without a run are one share together."""

problems = sa.Table(
    "problems",
    metadata,
    id_column("problem_id"),
    sa.Column("source_set", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("level", sa.Integer),
    sa.Column("entry_point", sa.Text, nullable=False),
    sa.Column("reference", sa.LargeBinary, nullable=False),
    sa.Column("reference_sha256", sa.Text, nullable=False),
    sa.Column("licence", sa.Text),  # SPDX where known; NULL where not stated
    sa.Column("operators", sa.Text),  # semantic key (workers/shims/operators.py) of the first evaluation; NULL before
    sa.Column("prompt_json", sa.Text),  # messages that the source set asks with, JSON; NULL where it has none
    sa.Column("claims", JSONB),  # further fields of its source, unchecked; NULL where it has none
    created_at(),
    sa.UniqueConstraint("source_set", "name", "reference_sha256", "entry_point"),
)

runs = sa.Table(
    "runs",
    metadata,
    id_column("run_id"),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("model", sa.Text),
    sa.Column("settings", JSONB, nullable=False, server_default="{}"),
    sa.Column("step", sa.Integer),
    created_at(),
)

trajectories = sa.Table(
    "trajectories",
    metadata,
    id_column("trajectory_id"),
    reference("problems.problem_id"),
    reference("runs.run_id", null=True),
    sa.Column("backend", sa.Text, nullable=False),
    sa.Column("label", sa.Text),
    sa.Column("claims", JSONB),  # further fields of its source, unchecked; NULL where it has none
    created_at(),
    short_id_index("trajectories", "trajectory_id"),
    sa.Index("ix_trajectories_label", "label", postgresql_ops={"label": "text_pattern_ops"}),
)

candidates = sa.Table(
    "candidates",
    metadata,
    id_column("candidate_id"),
    sa.Column("backend", sa.Text, nullable=False),
    sa.Column("source", sa.LargeBinary, nullable=False),
    sa.Column("source_sha256", sa.Text, nullable=False),
    created_at(),
    sa.UniqueConstraint("source_sha256", "backend"),
)

jobs = sa.Table(
    "jobs",
    metadata,
    id_column("job_id"),
    reference("problems.problem_id"),
    reference("candidates.candidate_id"),
    sa.Column("run_id", sa.Uuid, sa.ForeignKey("runs.run_id")),  # jobs of one run share the devices
    sa.Column("idempotency_key", sa.Text, nullable=False, unique=True),
    sa.Column("state", sa.Text, nullable=False, server_default=JobState.QUEUED),
    sa.Column("priority", sa.Text, nullable=False, server_default="normal"),
    sa.Column("device_class", sa.Text, nullable=False),
    sa.Column("device", sa.Text),  # '<node>.<index>' where pinned
    sa.Column("options", JSONB, nullable=False, server_default="{}"),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
    sa.Column("interruptions", sa.Integer, nullable=False, server_default="0"),  # attempts cut short by dead workers
    sa.Column("sick_devices", sa.Integer, nullable=False, server_default="0"),  # that were taken out while at it
    sa.Column("lease_until", sa.DateTime(timezone=True)),
    sa.Column("lease_owner", sa.Text),
    sa.Column("not_before", sa.DateTime(timezone=True)),  # earliest next claim of a job that runs again
    sa.Column("sent_at", sa.DateTime(timezone=True)),  # last time a message left for it
    sa.Column("cancel_requested", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("submissions", sa.Integer, nullable=False, server_default="1"),  # that share it and were not withdrawn
    sa.Column("error_kind", sa.Text),  # infrastructure fault of a failed job
    sa.Column("error_message", sa.Text),
    created_at(),
    sa.Column("started_at", sa.DateTime(timezone=True)),
    sa.Column("finished_at", sa.DateTime(timezone=True)),
    one_of("state", JobState),
    one_of("priority", ("high", "normal", "low")),
    sa.CheckConstraint("(state = 'running') = (lease_until IS NOT NULL)", name="lease"),
    sa.CheckConstraint("(state = 'failed') = (error_kind IS NOT NULL)", name="error"),
    sa.Index("ix_jobs_work", "state", "created_at", postgresql_where=sa.text("state IN ('queued', 'running')")),
    sa.Index("ix_jobs_failed", "finished_at", postgresql_where=sa.text("state = 'failed'")),
    sa.Index("ix_jobs_created_at_job_id", sa.text("created_at DESC"), sa.text("job_id DESC")),
    sa.Index("ix_jobs_state_created_at", "state", sa.text("created_at DESC"), sa.text("job_id DESC")),
    sa.Index("ix_jobs_device_class_created_at", "device_class", sa.text("created_at DESC"), sa.text("job_id DESC")),
    sa.Index(
        "ix_jobs_run_id_created_at",
        "run_id",
        sa.text("created_at DESC"),
        sa.text("job_id DESC"),
        postgresql_where=sa.text("run_id IS NOT NULL"),
    ),
    sa.Index(  # the heads of the queues, which every claim looks at
        "ix_jobs_queue",
        "device_class",
        sa.text("coalesce(device, '')"),
        sa.text(SHARE),
        "priority",
        "created_at",
        "job_id",
        postgresql_where=sa.text("state = 'queued'"),
    ),
    sa.Index("ix_jobs_share_started_at", sa.text(SHARE), "started_at"),  # when a run was served last
    sa.Index("ix_jobs_error_kind", "error_kind", postgresql_where=sa.text("state = 'failed'")),
    short_id_index("jobs", "job_id"),
    postgresql_with={"fillfactor": 80},
)

turns = sa.Table(
    "turns",
    metadata,
    id_column("turn_id"),
    reference("trajectories.trajectory_id", index=False),
    sa.Column("turn_index", sa.Integer, nullable=False),
    sa.Column("messages_json", sa.Text, nullable=False),  # ASCII-escaped JSON: lossless where JSONB is not
    sa.Column("response", sa.LargeBinary, nullable=False),
    reference("jobs.job_id", null=True),
    created_at(),
    sa.UniqueConstraint("trajectory_id", "turn_index"),
)

devices = sa.Table(
    "devices",
    metadata,
    id_column("device_id"),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("device_class", sa.Text, nullable=False),
    sa.Column("device_index", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False, server_default="online"),
    sa.Column("fingerprint", JSONB, nullable=False, server_default="{}"),
    sa.Column("worker", sa.Text, nullable=False),
    sa.Column("instance", sa.Text),  # app.domain.worker_instance; none once its worker has stopped in order
    sa.Column("address", sa.Text),  # from which the worker reaches PostgreSQL
    sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("faults", ARRAY(sa.Text), nullable=False, server_default="{}"),  # see app.store.devices.note_fault
    sa.Column("refused_messages", sa.BigInteger, nullable=False, server_default="0"),  # since its worker began
    sa.Column("reason", sa.Text),  # why it is draining or quarantined
    sa.Column("changed_by", sa.Text),
    sa.Column("changed_at", sa.DateTime(timezone=True)),
    created_at(),
    sa.UniqueConstraint("node", "device_class", "device_index"),
    one_of("state", ("online", "offline", "draining", "quarantined")),
)

evaluations = sa.Table(
    "evaluations",
    metadata,
    id_column("evaluation_id"),
    sa.Column("job_id", sa.Uuid, sa.ForeignKey("jobs.job_id"), nullable=False, unique=True),  # one result a job, ever
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("worker", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("valid", sa.Boolean, nullable=False),
    sa.Column("compiled", sa.Boolean, nullable=False),
    sa.Column("correct", sa.Boolean, nullable=False),
    sa.Column("speedup", sa.Double),  # measured, independent of the verdict
    sa.Column("speedup_ci_low", sa.Double),
    sa.Column("speedup_ci_high", sa.Double),
    sa.Column("device_speedup", sa.Double),  # measured; NULL where it was not asked for, or has no value
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
    sa.Column("measurement", JSONB, nullable=False),  # the whole Evaluation, so that it can be judged again
    sa.Column("human_verdict", sa.Text),  # a person's label, over the detectors'; kept by app.store.reviews
    created_at(),
    one_of("status", Status),
    one_of("human_verdict", Label),
    sa.CheckConstraint("speedup IS NULL OR (speedup > 0 AND correct)", name="speedup"),
    sa.CheckConstraint("NOT correct OR (valid AND compiled AND status = 'passed')", name="correct"),
    sa.Index("ix_evaluations_created_at_evaluation_id", sa.text("created_at DESC"), sa.text("evaluation_id DESC")),
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
    sa.Column("evaluation_id", sa.Uuid, sa.ForeignKey("evaluations.evaluation_id"), primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),  # 'chrome_trace'
    sa.Column("codec", sa.Text, nullable=False),  # 'zstd'
    sa.Column("raw_bytes", sa.Integer, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    created_at(),
)

kernel_codes = sa.Table(
    "kernel_codes",
    metadata,
    sa.Column("evaluation_id", sa.Uuid, sa.ForeignKey("evaluations.evaluation_id"), primary_key=True),
    sa.Column("raw_bytes", sa.Integer, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),  # zstd of JSON: a list of app.domain.evidence.KernelCode
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
    sa.Index("uq_verdicts_current", "evaluation_id", unique=True, postgresql_where=sa.text("is_current")),
    sa.Index("ix_verdicts_label", "label", postgresql_where=sa.text("is_current AND label <> 'clean'")),
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

users = sa.Table(
    "users",
    metadata,
    id_column("user_id"),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("password_hash", sa.Text),
    sa.Column("disabled_at", sa.DateTime(timezone=True)),
    created_at(),
    one_of("role", ("viewer", "reviewer", "operator", "admin")),
)

api_tokens = sa.Table(
    "api_tokens",
    metadata,
    id_column("api_token_id"),
    reference("users.user_id"),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("token_hash", sa.Text, nullable=False, unique=True),
    sa.Column("scopes", JSONB, nullable=False, server_default="[]"),
    sa.Column("hint", sa.Text, nullable=False, server_default=""),  # its first characters, to tell it from others
    sa.Column("expires_at", sa.DateTime(timezone=True)),
    sa.Column("last_used_at", sa.DateTime(timezone=True)),
    sa.Column("revoked_at", sa.DateTime(timezone=True)),
    created_at(),
)

reviews = sa.Table(
    "reviews",
    metadata,
    id_column("review_id"),
    reference("evaluations.evaluation_id"),
    reference("users.user_id", null=True),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("verdict", sa.Text),  # the Label that counts; NULL where the detectors' does
    sa.Column("hack_type", sa.Text),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("verdict_id", sa.Uuid, sa.ForeignKey("verdicts.verdict_id")),  # the detectors' verdict at that time
    sa.Column("withdraws", sa.Uuid, sa.ForeignKey("reviews.review_id"), unique=True),
    created_at(),
    one_of("label", Opinion),
    one_of("verdict", Label),
    sa.CheckConstraint("(label = 'withdrawn') = (withdraws IS NOT NULL)", name="withdraws"),
    sa.Index("ix_reviews_created_at", sa.text("created_at DESC")),
)

exports = sa.Table(
    "exports",
    metadata,
    id_column("export_id"),
    sa.Column("format", sa.Text, nullable=False),
    sa.Column("where_text", sa.Text, nullable=False),
    sa.Column("directory", sa.Text, nullable=False),
    sa.Column("row_count", sa.Integer, nullable=False),
    sa.Column("manifest", JSONB, nullable=False),
    created_at(),
    sa.Column("stale_at", sa.DateTime(timezone=True)),  # when the verdict behind a row first changed
    sa.Column("stale_reason", sa.Text),
    sa.Column("name", sa.Text),
    sa.Column("description", sa.Text),
    sa.CheckConstraint("(stale_at IS NULL) = (stale_reason IS NULL)", name="stale"),
)

export_rows = sa.Table(
    "export_rows",
    metadata,
    sa.Column("export_id", sa.Uuid, primary_key=True),
    sa.Column("row_index", sa.Integer, primary_key=True),
    sa.Column("evaluation_id", sa.Uuid, nullable=False, index=True),
)
"""Triggers stand in for its foreign keys, which would lock every evaluation of a dataset one by one."""

audit_events = sa.Table(
    "audit_events",
    metadata,
    id_column("audit_event_id"),
    reference("users.user_id", null=True),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("details", JSONB, nullable=False, server_default="{}"),
    created_at(),
    sa.Index("ix_audit_events_created_at", sa.text("created_at DESC"), sa.text("audit_event_id DESC")),
    sa.Index("ix_audit_events_subject", "subject"),
)

saved_filters = sa.Table(
    "saved_filters",
    metadata,
    id_column("saved_filter_id"),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("page", sa.Text, nullable=False, server_default=""),  # endpoint of the list that the view is of
    sa.Column("query", sa.Text, nullable=False, server_default=""),  # query of its URL: filter, columns and order
    reference("users.user_id", null=True, index=False),
    created_at(),
)
