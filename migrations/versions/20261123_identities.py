"""A problem's identity, the owner of a task's name, and settings that lists can show.

The entry point is part of a problem's identity: with another one the same reference expects other
outputs.  Names of KernelGYM tasks belong to the user who gave them.  Settings of a run that are
nested deeper than lists can show become the text that they are.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261123e"
down_revision = "20261121zk"
branch_labels = None
depends_on = None

WITHOUT = "uq_problems_source_set_name_reference_sha256"
DEEP = """
UPDATE runs SET settings = jsonb_build_object('nested_too_deep', settings::text)
WHERE jsonb_path_exists(settings, '$.**{33}')
"""
"""32 is the limit for incoming values (app.domain.freeform)."""
TASKS = "pk_kernelgym_tasks"
WITH = "uq_problems_source_set_name_reference_sha256_entry_point"


def upgrade() -> None:
    op.drop_constraint(WITHOUT, "problems", type_="unique")
    op.create_unique_constraint(
        WITH, "problems", ["source_set", "name", "reference_sha256", "entry_point"]
    )
    op.add_column(
        "kernelgym_tasks", sa.Column("owner", sa.Text(), nullable=False, server_default="")
    )
    op.drop_constraint(TASKS, "kernelgym_tasks", type_="primary")
    op.create_primary_key(TASKS, "kernelgym_tasks", ["owner", "task_id"])
    op.execute(DEEP)


def downgrade() -> None:
    """Problems that differ in their entry point alone get names of their own first; of
    tasks of one name the latest stays.
    """
    op.execute("""
        DELETE FROM kernelgym_tasks USING (
            SELECT owner, task_id, row_number() OVER (PARTITION BY task_id ORDER BY created_at DESC, owner) AS place
            FROM kernelgym_tasks) AS numbered
        WHERE numbered.owner = kernelgym_tasks.owner AND numbered.task_id = kernelgym_tasks.task_id
          AND numbered.place > 1
        """)
    op.drop_constraint(TASKS, "kernelgym_tasks", type_="primary")
    op.drop_column("kernelgym_tasks", "owner")
    op.create_primary_key(TASKS, "kernelgym_tasks", ["task_id"])
    op.execute("""
        UPDATE problems SET name = problems.name || '.' || problems.entry_point
        FROM (SELECT problem_id, row_number() OVER (
                PARTITION BY source_set, name, reference_sha256 ORDER BY problem_id) AS place FROM problems) AS numbered
        WHERE numbered.problem_id = problems.problem_id AND numbered.place > 1
        """)
    op.drop_constraint(WITH, "problems", type_="unique")
    op.create_unique_constraint(WITHOUT, "problems", ["source_set", "name", "reference_sha256"])
