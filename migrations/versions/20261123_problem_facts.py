"""Facts of a problem: the operators that it runs, the prompt that its source gives
it, and its remaining facts.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "20261123f"
down_revision = "20261123r"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("problems", sa.Column("operators", sa.Text(), nullable=True))
    op.add_column("problems", sa.Column("prompt_json", sa.Text(), nullable=True))
    op.add_column("problems", sa.Column("claims", JSONB(), nullable=True))


def downgrade() -> None:
    for name in ("claims", "prompt_json", "operators"):
        op.drop_column("problems", name)
