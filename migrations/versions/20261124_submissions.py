"""Number of submissions that share a job: one of them alone cannot cancel it for the others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261124su"
down_revision = "20261124ds"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "jobs", sa.Column("submissions", sa.Integer(), nullable=False, server_default="1")
    )


def downgrade() -> None:
    op.drop_column("jobs", "submissions")
