"""For the service: identity, nodes, fairness."""

from __future__ import annotations

revision = "20261121s"
down_revision = "20261121"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
