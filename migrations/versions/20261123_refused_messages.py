"""Messages that a worker has refused, for `assay doctor`."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261123r"
down_revision = "20261123p"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "devices",
        sa.Column("refused_messages", sa.BigInteger(), server_default="0", nullable=False),
    )


def downgrade() -> None:
    op.drop_column("devices", "refused_messages")
