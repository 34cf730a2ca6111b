"""Checks of problems: the result of each against itself, on each device class."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "20261123p"
down_revision = "20261123i"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "problem_checks",
        sa.Column("problem_check_id", sa.Uuid(), nullable=False),
        sa.Column("problem_id", sa.Uuid(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("device_class", sa.Text(), nullable=False),
        sa.Column("device_name", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("protocol", sa.Text(), nullable=False),
        sa.Column("row", JSONB(), nullable=False),
        sa.Column("checked_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "outcome IN ('passed', 'accused', 'invalid', 'our fault', 'blamed')",
            name=op.f("ck_problem_checks_outcome"),
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name="fk_problem_checks_job_id"),
        sa.ForeignKeyConstraint(
            ["problem_id"], ["problems.problem_id"], name="fk_problem_checks_problem_id"
        ),
        sa.PrimaryKeyConstraint("problem_check_id", name="pk_problem_checks"),
        sa.UniqueConstraint(
            "problem_id", "device_class", name="uq_problem_checks_problem_id_device_class"
        ),
    )
    op.create_index("ix_problem_checks_job_id", "problem_checks", ["job_id"])


def downgrade() -> None:
    op.drop_table("problem_checks")
