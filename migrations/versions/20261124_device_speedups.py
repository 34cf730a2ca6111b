"""Speedups by the device's own time: columns for lists, filters and datasets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261124ds"
down_revision = "20261124rq"
branch_labels = None
depends_on = None

COLUMNS = ("device_speedup", "device_speedup_ci_low", "device_speedup_ci_high")


def upgrade() -> None:
    for name in COLUMNS:
        op.add_column("evaluations", sa.Column(name, sa.Double(), nullable=True))


def downgrade() -> None:
    for name in reversed(COLUMNS):
        op.drop_column("evaluations", name)
