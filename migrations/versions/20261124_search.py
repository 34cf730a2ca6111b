"""Indexes for search: ids by their last digits, trajectories by the beginning of their label."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261124se"
down_revision = "20261124al"
branch_labels = None
depends_on = None

KEYS = {"evaluations": "evaluation_id", "jobs": "job_id", "trajectories": "trajectory_id"}


def upgrade() -> None:
    for table, key in KEYS.items():
        op.create_index(f"ix_{table}_short_id", table, [sa.text(f'"right"({key}::text, 8)')])
    op.create_index(
        "ix_trajectories_label",
        "trajectories",
        ["label"],
        postgresql_ops={"label": "text_pattern_ops"},
    )


def downgrade() -> None:
    op.drop_index("ix_trajectories_label", "trajectories")
    for table in KEYS:
        op.drop_index(f"ix_{table}_short_id", table)
