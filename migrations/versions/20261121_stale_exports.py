"""Datasets that a changed verdict has made stale say so."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261121y"
down_revision = "20261121x"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("exports", sa.Column("stale_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("exports", sa.Column("stale_reason", sa.Text(), nullable=True))
    op.create_check_constraint(
        op.f("ck_exports_stale"), "exports", "(stale_at IS NULL) = (stale_reason IS NULL)"
    )


def downgrade() -> None:
    op.drop_constraint(op.f("ck_exports_stale"), "exports", type_="check")
    op.drop_column("exports", "stale_reason")
    op.drop_column("exports", "stale_at")
