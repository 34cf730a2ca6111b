"""A task of the KernelGYM protocol is withdrawn once, though its DELETE is sent twice."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261128wt"
down_revision = "20261128wc"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "kernelgym_tasks",
        sa.Column("withdrawn", sa.Boolean(), server_default=sa.false(), nullable=False),
    )


def downgrade() -> None:
    op.drop_column("kernelgym_tasks", "withdrawn")
