"""For the web UI: reviews, saved filters, roll-ups."""

from __future__ import annotations

revision = "20261121u"
down_revision = "20261121s"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
