"""Checks of problems that ran without the queue have no job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261123w"
down_revision = "20261123g"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.alter_column("problem_checks", "job_id", existing_type=sa.Uuid(), nullable=True)


def downgrade() -> None:
    op.execute("DELETE FROM problem_checks WHERE job_id IS NULL")
    op.alter_column("problem_checks", "job_id", existing_type=sa.Uuid(), nullable=False)
