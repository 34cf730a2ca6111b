"""Users and their sessions, hosts of devices, fair shares of runs."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from alembic import op

revision = "20261121s"
down_revision = "20261121"
branch_labels = None
depends_on = None

SHARE = "coalesce(run_id, '00000000-0000-0000-0000-000000000000')"

RUN_OF_JOBS = """
UPDATE jobs SET run_id = asked.run_id
FROM (SELECT DISTINCT ON (turns.job_id) turns.job_id, trajectories.run_id
      FROM turns JOIN trajectories USING (trajectory_id)
      WHERE trajectories.run_id IS NOT NULL
      ORDER BY turns.job_id, turns.turn_id) AS asked
WHERE jobs.job_id = asked.job_id AND jobs.state = 'queued'
"""
"""A waiting job counts for the run that asked for it first; a finished one for no run."""


def upgrade() -> None:
    _identity()
    _fleet()


def downgrade() -> None:
    _drop_fleet()
    _drop_identity()


def _identity() -> None:
    op.add_column("users", _moment("disabled_at"))
    op.add_column("api_tokens", sa.Column("hint", sa.Text(), server_default="", nullable=False))
    op.add_column("api_tokens", _moment("expires_at"))
    newest_first = [sa.text("created_at DESC"), sa.text("audit_event_id DESC")]
    op.create_index("ix_audit_events_created_at", "audit_events", newest_first)
    op.create_index("ix_audit_events_subject", "audit_events", ["subject"])
    op.create_table(
        "sessions",
        sa.Column("session_hash", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        _moment("expires_at", nullable=False),
        _created(),
        sa.ForeignKeyConstraint(["user_id"], ["users.user_id"], name="fk_sessions_user_id"),
        sa.PrimaryKeyConstraint("session_hash", name="pk_sessions"),
    )
    op.create_index("ix_sessions_user_id", "sessions", ["user_id"])
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])
    op.create_table(
        "login_failures",
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        _moment("failed_at", nullable=False),
        sa.PrimaryKeyConstraint("subject", name="pk_login_failures"),
    )
    op.create_index("ix_login_failures_failed_at", "login_failures", ["failed_at"])
    op.create_table(
        "idempotency_keys",
        sa.Column("key_sha256", sa.Text(), nullable=False),
        sa.Column("request_sha256", sa.Text(), nullable=False),
        _created(),
        sa.PrimaryKeyConstraint("key_sha256", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"])


def _drop_identity() -> None:
    for table in ("idempotency_keys", "login_failures", "sessions"):
        op.drop_table(table)
    op.drop_index("ix_audit_events_subject", "audit_events")
    op.drop_index("ix_audit_events_created_at", "audit_events")
    op.drop_column("api_tokens", "expires_at")
    op.drop_column("api_tokens", "hint")
    op.drop_column("users", "disabled_at")


def _fleet() -> None:
    op.add_column("jobs", sa.Column("run_id", sa.Uuid(), nullable=True))
    op.create_foreign_key("fk_jobs_run_id", "jobs", "runs", ["run_id"], ["run_id"])
    op.add_column(
        "jobs", sa.Column("sick_devices", sa.Integer(), server_default="0", nullable=False)
    )
    pin = sa.text("coalesce(device, '')")
    op.create_index(
        "ix_jobs_queue",
        "jobs",
        ["device_class", pin, sa.text(SHARE), "priority", "created_at", "job_id"],
        postgresql_where=sa.text("state = 'queued'"),
    )
    op.create_index("ix_jobs_share_started_at", "jobs", [sa.text(SHARE), "started_at"])
    op.create_index(
        "ix_jobs_error_kind", "jobs", ["error_kind"], postgresql_where=sa.text("state = 'failed'")
    )
    op.execute(RUN_OF_JOBS)
    for column in (
        sa.Column("reason", sa.Text()),
        sa.Column("changed_by", sa.Text()),
        _moment("changed_at"),
    ):
        op.add_column("devices", column)
    op.create_table(
        "device_events",
        sa.Column("device_event_id", sa.Uuid(), nullable=False),
        sa.Column("device_id", sa.Uuid(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        _created(),
        sa.ForeignKeyConstraint(
            ["device_id"], ["devices.device_id"], name="fk_device_events_device_id"
        ),
        sa.PrimaryKeyConstraint("device_event_id", name="pk_device_events"),
    )
    op.create_index("ix_device_events_device_id", "device_events", ["device_id"])


def _drop_fleet() -> None:
    op.drop_table("device_events")
    for column in ("reason", "changed_by", "changed_at"):
        op.drop_column("devices", column)
    for index in ("ix_jobs_queue", "ix_jobs_share_started_at", "ix_jobs_error_kind"):
        op.drop_index(index, "jobs")
    op.drop_column("jobs", "sick_devices")
    op.drop_column("jobs", "run_id")


def _moment(name: str, *, nullable: bool = True) -> sa.Column[datetime]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _created() -> sa.Column[datetime]:
    return sa.Column(
        "created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False
    )
