"""Mean rewards of runs, kept for lists and trends."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "20261124rr"
down_revision = "20261124er"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_rewards",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("reward", sa.Text(), nullable=False),
        sa.Column("mean", sa.Double()),
        sa.Column("low", sa.Double()),
        sa.Column("high", sa.Double()),
        sa.Column("best", sa.Double()),
        sa.Column("last", sa.Double()),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("revision", ARRAY(sa.BigInteger()), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.run_id"], name="fk_run_rewards_run_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "reward", name="pk_run_rewards"),
    )


def downgrade() -> None:
    op.drop_table("run_rewards")
