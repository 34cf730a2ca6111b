"""Comments and tags on runs."""

from __future__ import annotations

from alembic import op

revision = "20261128rr"
down_revision = "20261124sl"
branch_labels = None
depends_on = None

WITHOUT = "kind IN ('problem', 'trajectory', 'candidate')"
WITH = "kind IN ('run', 'problem', 'trajectory', 'candidate')"


def upgrade() -> None:
    _allow(WITH)


def downgrade() -> None:
    """Comments and tags on runs are deleted: the older tables have no place for them."""
    for table in ("comments", "tags"):
        op.execute(f"DELETE FROM {table} WHERE kind = 'run'")
    _allow(WITHOUT)


def _allow(kinds: str) -> None:
    for table in ("comments", "tags"):
        op.drop_constraint(op.f(f"ck_{table}_kind"), table, type_="check")
        op.create_check_constraint(op.f(f"ck_{table}_kind"), table, kinds)
