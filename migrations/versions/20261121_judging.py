"""For judging: policies and what was missing in the sandbox."""

from __future__ import annotations

revision = "20261121y"
down_revision = "20261121x"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
