"""For datasets: selection and export jobs."""

from __future__ import annotations

revision = "20261121x"
down_revision = "20261121u"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
