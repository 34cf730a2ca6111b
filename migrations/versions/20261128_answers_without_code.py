"""The latest answers without code, which the metrics of runs count, are found by an index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261128wc"
down_revision = "20261128eq"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_attempts_without_code",
        "attempts",
        ["created_at"],
        postgresql_where=sa.text("evaluation_id IS NULL AND run_id IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_attempts_without_code", "attempts")
