"""Endpoints of models, and prompt templates."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "20261124m"
down_revision = "20261124c"
branch_labels = None
depends_on = None


def _created_at() -> sa.Column:  # type: ignore[type-arg]
    return sa.Column(
        "created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()
    )


def upgrade() -> None:
    op.create_table(
        "endpoints",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("config", JSONB(), nullable=False),
        sa.Column("probed_at", sa.DateTime(timezone=True)),
        _created_at(),
        sa.PrimaryKeyConstraint("name", name="pk_endpoints"),
    )
    op.create_table(
        "prompt_templates",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        _created_at(),
        sa.CheckConstraint("kind IN ('system', 'problem', 'feedback')", name="kind"),
        sa.PrimaryKeyConstraint("name", "kind", "sha256", name="pk_prompt_templates"),
    )


def downgrade() -> None:
    op.drop_table("prompt_templates")
    op.drop_table("endpoints")
