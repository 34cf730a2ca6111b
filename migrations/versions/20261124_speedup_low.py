"""Index of the lower ends of speedup intervals: the filter that leaves only what is
faster beyond chance.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261124sl"
down_revision = "20261124wi"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_evaluations_speedup_ci_low",
        "evaluations",
        [sa.text("speedup_ci_low DESC")],
        postgresql_where=sa.text("speedup_ci_low IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_evaluations_speedup_ci_low", "evaluations")
