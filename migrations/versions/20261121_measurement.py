"""For measurement: columns for what is searched by."""

from __future__ import annotations

revision = "20261121z"
down_revision = "20261121y"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
