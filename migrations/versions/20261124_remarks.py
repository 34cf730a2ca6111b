"""Comments and tags on problems, trajectories and candidates; names and descriptions
of datasets.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261124rk"
down_revision = "20261124jl"
branch_labels = None
depends_on = None

KINDS = "kind IN ('problem', 'trajectory', 'candidate')"


def upgrade() -> None:
    op.create_table(
        "comments",
        sa.Column("comment_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Uuid(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False
        ),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("comment_id", name="pk_comments"),
        sa.ForeignKeyConstraint(["user_id"], ["users.user_id"], name="fk_comments_user_id"),
        sa.CheckConstraint(KINDS, name=op.f("ck_comments_kind")),
    )
    op.create_index("ix_comments_subject_id", "comments", ["subject_id", "comment_id"])
    op.create_table(
        "tags",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Uuid(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False
        ),
        sa.PrimaryKeyConstraint("kind", "subject_id", "tag", name="pk_tags"),
        sa.ForeignKeyConstraint(["user_id"], ["users.user_id"], name="fk_tags_user_id"),
        sa.CheckConstraint(KINDS, name=op.f("ck_tags_kind")),
    )
    op.create_index("ix_tags_tag", "tags", ["tag", "created_at"])
    op.add_column("exports", sa.Column("name", sa.Text(), nullable=True))
    op.add_column("exports", sa.Column("description", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("exports", "description")
    op.drop_column("exports", "name")
    op.drop_table("tags")
    op.drop_table("comments")
