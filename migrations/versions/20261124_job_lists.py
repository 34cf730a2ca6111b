"""Indexes for lists of jobs: by state, device class and run, newest first."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261124jl"
down_revision = "20261124m"
branch_labels = None
depends_on = None

NEWEST = [sa.text("created_at DESC"), sa.text("job_id DESC")]


def upgrade() -> None:
    op.create_index("ix_jobs_state_created_at", "jobs", ["state", *NEWEST])
    op.create_index("ix_jobs_device_class_created_at", "jobs", ["device_class", *NEWEST])
    op.create_index(
        "ix_jobs_run_id_created_at",
        "jobs",
        ["run_id", *NEWEST],
        postgresql_where=sa.text("run_id IS NOT NULL"),
    )


def downgrade() -> None:
    for name in (
        "ix_jobs_run_id_created_at",
        "ix_jobs_device_class_created_at",
        "ix_jobs_state_created_at",
    ):
        op.drop_index(name, "jobs")
