"""Review queues with a name, conditions and reviewers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261124rq"
down_revision = "20261124kc"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "review_queues",
        sa.Column("review_queue_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("detector", sa.Text(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Uuid()),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.user_id"], name="fk_review_queues_user_id"),
        sa.PrimaryKeyConstraint("review_queue_id", name="pk_review_queues"),
        sa.UniqueConstraint("name", name="uq_review_queues_name"),
    )
    op.create_table(
        "review_queue_reviewers",
        sa.Column("review_queue_id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["review_queue_id"],
            ["review_queues.review_queue_id"],
            name="fk_review_queue_reviewers_review_queue_id",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.user_id"], name="fk_review_queue_reviewers_user_id"
        ),
        sa.PrimaryKeyConstraint("review_queue_id", "user_id", name="pk_review_queue_reviewers"),
    )


def downgrade() -> None:
    op.drop_table("review_queue_reviewers")
    op.drop_table("review_queues")
