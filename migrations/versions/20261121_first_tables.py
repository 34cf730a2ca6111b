"""The first tables: everything in `app/store/tables` as it was on that day."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "20261121"
down_revision = None
branch_labels = None
depends_on = None

TABLES = (
    "problems",
    "candidates",
    "jobs",
    "devices",
    "runs",
    "trajectories",
    "turns",
    "evaluations",
    "profiles",
    "verdicts",
    "findings",
    "users",
    "api_tokens",
    "reviews",
    "audit_events",
    "exports",
    "export_rows",
    "saved_filters",
)
"""In the order in which they are made: the table that a foreign key names comes first."""


def upgrade() -> None:
    _problems()
    _candidates()
    _jobs()
    _devices()
    _runs()
    _trajectories()
    _turns()
    _evaluations()
    _profiles()
    _verdicts()
    _findings()
    _users()
    _api_tokens()
    _reviews()
    _audit_events()
    _exports()
    _export_rows()
    _saved_filters()


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)


def _created() -> sa.Column[datetime]:
    return sa.Column(
        "created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False
    )


def _problems() -> None:
    op.create_table(
        "problems",
        sa.Column("problem_id", sa.Uuid(), nullable=False),
        sa.Column("source_set", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("level", sa.Integer(), nullable=True),
        sa.Column("entry_point", sa.Text(), nullable=False),
        sa.Column("reference", sa.LargeBinary(), nullable=False),
        sa.Column("reference_sha256", sa.Text(), nullable=False),
        _created(),
        sa.PrimaryKeyConstraint("problem_id", name="pk_problems"),
        sa.UniqueConstraint(
            "source_set",
            "name",
            "reference_sha256",
            name="uq_problems_source_set_name_reference_sha256",
        ),
    )


def _candidates() -> None:
    op.create_table(
        "candidates",
        sa.Column("candidate_id", sa.Uuid(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("source", sa.LargeBinary(), nullable=False),
        sa.Column("source_sha256", sa.Text(), nullable=False),
        _created(),
        sa.PrimaryKeyConstraint("candidate_id", name="pk_candidates"),
        sa.UniqueConstraint("source_sha256", "backend", name="uq_candidates_source_sha256_backend"),
    )


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("problem_id", sa.Uuid(), nullable=False),
        sa.Column("candidate_id", sa.Uuid(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="queued", nullable=False),
        sa.Column("priority", sa.Text(), server_default="normal", nullable=False),
        sa.Column("device_class", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=True),
        sa.Column("options", JSONB(), server_default="{}", nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "cancel_requested", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column("error_kind", sa.Text(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        _created(),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(state = 'failed') = (error_kind IS NOT NULL)", name=op.f("ck_jobs_error")
        ),
        sa.CheckConstraint(
            "(state = 'running') = (lease_until IS NOT NULL)", name=op.f("ck_jobs_lease")
        ),
        sa.CheckConstraint("priority IN ('high', 'normal', 'low')", name=op.f("ck_jobs_priority")),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'finished', 'failed', 'cancelled')",
            name=op.f("ck_jobs_state"),
        ),
        sa.ForeignKeyConstraint(
            ["candidate_id"], ["candidates.candidate_id"], name="fk_jobs_candidate_id"
        ),
        sa.ForeignKeyConstraint(["problem_id"], ["problems.problem_id"], name="fk_jobs_problem_id"),
        sa.PrimaryKeyConstraint("job_id", name="pk_jobs"),
        sa.UniqueConstraint("idempotency_key", name="uq_jobs_idempotency_key"),
        postgresql_with={"fillfactor": 80},
    )
    op.create_index("ix_jobs_candidate_id", "jobs", ["candidate_id"])
    op.create_index(
        "ix_jobs_created_at_job_id",
        "jobs",
        [sa.literal_column("created_at DESC"), sa.literal_column("job_id DESC")],
    )
    op.create_index("ix_jobs_problem_id", "jobs", ["problem_id"])
    op.create_index(
        "ix_jobs_work",
        "jobs",
        ["state", "created_at"],
        postgresql_where=sa.text("state IN ('queued', 'running')"),
    )


def _devices() -> None:
    op.create_table(
        "devices",
        sa.Column("device_id", sa.Uuid(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("device_class", sa.Text(), nullable=False),
        sa.Column("device_index", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), server_default="online", nullable=False),
        sa.Column("fingerprint", JSONB(), server_default="{}", nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=False),
        _created(),
        sa.CheckConstraint(
            "state IN ('online', 'offline', 'draining', 'quarantined')",
            name=op.f("ck_devices_state"),
        ),
        sa.PrimaryKeyConstraint("device_id", name="pk_devices"),
        sa.UniqueConstraint(
            "node", "device_class", "device_index", name="uq_devices_node_device_class_device_index"
        ),
    )


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("settings", JSONB(), server_default="{}", nullable=False),
        sa.Column("step", sa.Integer(), nullable=True),
        _created(),
        sa.PrimaryKeyConstraint("run_id", name="pk_runs"),
        sa.UniqueConstraint("name", name="uq_runs_name"),
    )


def _trajectories() -> None:
    op.create_table(
        "trajectories",
        sa.Column("trajectory_id", sa.Uuid(), nullable=False),
        sa.Column("problem_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=True),
        _created(),
        sa.ForeignKeyConstraint(
            ["problem_id"], ["problems.problem_id"], name="fk_trajectories_problem_id"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_trajectories_run_id"),
        sa.PrimaryKeyConstraint("trajectory_id", name="pk_trajectories"),
    )
    op.create_index("ix_trajectories_problem_id", "trajectories", ["problem_id"])
    op.create_index("ix_trajectories_run_id", "trajectories", ["run_id"])


def _turns() -> None:
    op.create_table(
        "turns",
        sa.Column("turn_id", sa.Uuid(), nullable=False),
        sa.Column("trajectory_id", sa.Uuid(), nullable=False),
        sa.Column("turn_index", sa.Integer(), nullable=False),
        sa.Column("messages_json", sa.Text(), nullable=False),
        sa.Column("response", sa.LargeBinary(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=True),
        _created(),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name="fk_turns_job_id"),
        sa.ForeignKeyConstraint(
            ["trajectory_id"], ["trajectories.trajectory_id"], name="fk_turns_trajectory_id"
        ),
        sa.PrimaryKeyConstraint("turn_id", name="pk_turns"),
        sa.UniqueConstraint(
            "trajectory_id", "turn_index", name="uq_turns_trajectory_id_turn_index"
        ),
    )
    op.create_index("ix_turns_job_id", "turns", ["job_id"])


def _evaluations() -> None:
    op.create_table(
        "evaluations",
        sa.Column("evaluation_id", sa.Uuid(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("valid", sa.Boolean(), nullable=False),
        sa.Column("compiled", sa.Boolean(), nullable=False),
        sa.Column("correct", sa.Boolean(), nullable=False),
        sa.Column("speedup", sa.Double(), nullable=True),
        sa.Column("speedup_ci_low", sa.Double(), nullable=True),
        sa.Column("speedup_ci_high", sa.Double(), nullable=True),
        sa.Column("reference_us", sa.Double(), nullable=True),
        sa.Column("candidate_us", sa.Double(), nullable=True),
        sa.Column("coverage_time", sa.Double(), nullable=True),
        sa.Column("coverage_count", sa.Double(), nullable=True),
        sa.Column("baseline", sa.Text(), nullable=False),
        sa.Column("device_class", sa.Text(), nullable=False),
        sa.Column("device_name", sa.Text(), nullable=False),
        sa.Column("protocol", sa.Text(), nullable=False),
        sa.Column("seed", sa.Text(), nullable=False),
        sa.Column("queue_ms", sa.Double(), nullable=False),
        sa.Column("total_ms", sa.Double(), nullable=False),
        sa.Column("measurement", JSONB(), nullable=False),
        _created(),
        sa.CheckConstraint(
            "NOT correct OR (valid AND compiled AND status = 'passed')",
            name=op.f("ck_evaluations_correct"),
        ),
        sa.CheckConstraint(
            "status IN ('passed', 'incorrect', 'compile_error', 'runtime_error', 'timeout',"
            " 'out_of_memory', 'crashed', 'invalid')",
            name=op.f("ck_evaluations_status"),
        ),
        sa.CheckConstraint(
            "speedup IS NULL OR (speedup > 0 AND correct)", name=op.f("ck_evaluations_speedup")
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name="fk_evaluations_job_id"),
        sa.PrimaryKeyConstraint("evaluation_id", name="pk_evaluations"),
        sa.UniqueConstraint("job_id", name="uq_evaluations_job_id"),
    )
    op.create_index(
        "ix_evaluations_created_at_evaluation_id",
        "evaluations",
        [sa.literal_column("created_at DESC"), sa.literal_column("evaluation_id DESC")],
    )
    op.create_index(
        "ix_evaluations_status_created_at",
        "evaluations",
        ["status", sa.literal_column("created_at DESC")],
    )


def _profiles() -> None:
    op.create_table(
        "profiles",
        sa.Column("evaluation_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("codec", sa.Text(), nullable=False),
        sa.Column("raw_bytes", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        _created(),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluations.evaluation_id"], name="fk_profiles_evaluation_id"
        ),
        sa.PrimaryKeyConstraint("evaluation_id", name="pk_profiles"),
    )
    # zstd does not compress twice; EXTERNAL spares the attempt and lets a reader take a slice.
    op.execute("ALTER TABLE profiles ALTER COLUMN body SET STORAGE EXTERNAL")


def _verdicts() -> None:
    op.create_table(
        "verdicts",
        sa.Column("verdict_id", sa.Uuid(), nullable=False),
        sa.Column("evaluation_id", sa.Uuid(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("detectors", JSONB(), nullable=False),
        sa.Column("is_current", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        _created(),
        sa.CheckConstraint("label IN ('clean', 'suspect', 'hack')", name=op.f("ck_verdicts_label")),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluations.evaluation_id"], name="fk_verdicts_evaluation_id"
        ),
        sa.PrimaryKeyConstraint("verdict_id", name="pk_verdicts"),
    )
    op.create_index("ix_verdicts_evaluation_id", "verdicts", ["evaluation_id"])
    op.create_index(
        "ix_verdicts_label",
        "verdicts",
        ["label"],
        postgresql_where=sa.text("is_current AND label <> 'clean'"),
    )
    op.create_index(
        "uq_verdicts_current",
        "verdicts",
        ["evaluation_id"],
        unique=True,
        postgresql_where=sa.text("is_current"),
    )


def _findings() -> None:
    op.create_table(
        "findings",
        sa.Column("finding_id", sa.Uuid(), nullable=False),
        sa.Column("verdict_id", sa.Uuid(), nullable=False),
        sa.Column("detector", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("evidence", JSONB(), nullable=False),
        sa.CheckConstraint("label IN ('clean', 'suspect', 'hack')", name=op.f("ck_findings_label")),
        sa.ForeignKeyConstraint(
            ["verdict_id"], ["verdicts.verdict_id"], name="fk_findings_verdict_id"
        ),
        sa.PrimaryKeyConstraint("finding_id", name="pk_findings"),
    )
    op.create_index("ix_findings_detector", "findings", ["detector"])
    op.create_index("ix_findings_verdict_id", "findings", ["verdict_id"])


def _users() -> None:
    op.create_table(
        "users",
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=True),
        _created(),
        sa.CheckConstraint(
            "role IN ('viewer', 'reviewer', 'operator', 'admin')", name=op.f("ck_users_role")
        ),
        sa.PrimaryKeyConstraint("user_id", name="pk_users"),
        sa.UniqueConstraint("name", name="uq_users_name"),
    )


def _api_tokens() -> None:
    op.create_table(
        "api_tokens",
        sa.Column("api_token_id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("scopes", JSONB(), server_default="[]", nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        _created(),
        sa.ForeignKeyConstraint(["user_id"], ["users.user_id"], name="fk_api_tokens_user_id"),
        sa.PrimaryKeyConstraint("api_token_id", name="pk_api_tokens"),
        sa.UniqueConstraint("token_hash", name="uq_api_tokens_token_hash"),
    )
    op.create_index("ix_api_tokens_user_id", "api_tokens", ["user_id"])


def _reviews() -> None:
    op.create_table(
        "reviews",
        sa.Column("review_id", sa.Uuid(), nullable=False),
        sa.Column("evaluation_id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=True),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        _created(),
        sa.CheckConstraint("label IN ('clean', 'suspect', 'hack')", name=op.f("ck_reviews_label")),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluations.evaluation_id"], name="fk_reviews_evaluation_id"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.user_id"], name="fk_reviews_user_id"),
        sa.PrimaryKeyConstraint("review_id", name="pk_reviews"),
    )
    op.create_index("ix_reviews_evaluation_id", "reviews", ["evaluation_id"])
    op.create_index("ix_reviews_user_id", "reviews", ["user_id"])


def _audit_events() -> None:
    op.create_table(
        "audit_events",
        sa.Column("audit_event_id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("details", JSONB(), server_default="{}", nullable=False),
        _created(),
        sa.ForeignKeyConstraint(["user_id"], ["users.user_id"], name="fk_audit_events_user_id"),
        sa.PrimaryKeyConstraint("audit_event_id", name="pk_audit_events"),
    )
    op.create_index("ix_audit_events_user_id", "audit_events", ["user_id"])


def _exports() -> None:
    op.create_table(
        "exports",
        sa.Column("export_id", sa.Uuid(), nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("where_text", sa.Text(), nullable=False),
        sa.Column("directory", sa.Text(), nullable=False),
        sa.Column("row_count", sa.Integer(), nullable=False),
        sa.Column("manifest", JSONB(), nullable=False),
        _created(),
        sa.PrimaryKeyConstraint("export_id", name="pk_exports"),
    )


def _export_rows() -> None:
    op.create_table(
        "export_rows",
        sa.Column("export_id", sa.Uuid(), nullable=False),
        sa.Column("row_index", sa.Integer(), nullable=False),
        sa.Column("evaluation_id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluations.evaluation_id"], name="fk_export_rows_evaluation_id"
        ),
        sa.ForeignKeyConstraint(
            ["export_id"], ["exports.export_id"], name="fk_export_rows_export_id"
        ),
        sa.PrimaryKeyConstraint("export_id", "row_index", name="pk_export_rows"),
    )
    op.create_index("ix_export_rows_evaluation_id", "export_rows", ["evaluation_id"])


def _saved_filters() -> None:
    op.create_table(
        "saved_filters",
        sa.Column("saved_filter_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("where_text", sa.Text(), nullable=False),
        _created(),
        sa.PrimaryKeyConstraint("saved_filter_id", name="pk_saved_filters"),
        sa.UniqueConstraint("name", name="uq_saved_filters_name"),
    )
