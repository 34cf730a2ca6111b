"""The entry point is part of a problem's identity: with another one the same reference expects other outputs."""

from __future__ import annotations

from alembic import op

revision = "20261123e"
down_revision = "20261121zk"
branch_labels = None
depends_on = None

WITHOUT = "uq_problems_source_set_name_reference_sha256"
WITH = "uq_problems_source_set_name_reference_sha256_entry_point"


def upgrade() -> None:
    op.drop_constraint(WITHOUT, "problems", type_="unique")
    op.create_unique_constraint(WITH, "problems", ["source_set", "name", "reference_sha256", "entry_point"])


def downgrade() -> None:
    """Problems that differ in their entry point alone get names of their own first."""
    op.execute(
        """
        UPDATE problems SET name = problems.name || '.' || problems.entry_point
        FROM (SELECT problem_id, row_number() OVER (
                PARTITION BY source_set, name, reference_sha256 ORDER BY problem_id) AS place FROM problems) AS numbered
        WHERE numbered.problem_id = problems.problem_id AND numbered.place > 1
        """
    )
    op.drop_constraint(WITH, "problems", type_="unique")
    op.create_unique_constraint(WITHOUT, "problems", ["source_set", "name", "reference_sha256"])
