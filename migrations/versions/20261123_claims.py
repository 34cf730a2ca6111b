"""Fields of an imported record that are not read: kept beside its trajectory, unchecked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "20261123c"
down_revision = "20261123w"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("trajectories", sa.Column("claims", JSONB(), nullable=True))


def downgrade() -> None:
    op.drop_column("trajectories", "claims")
