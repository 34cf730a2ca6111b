"""For clients of the KernelGYM protocol: which job a name of theirs stands for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "20261121zk"
down_revision = "20261121y"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "kernelgym_tasks",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("workflow", sa.Text(), nullable=False),
        sa.Column("asked", JSONB(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.job_id"], name=op.f("fk_kernelgym_tasks_job_id")
        ),
        sa.PrimaryKeyConstraint("task_id", name=op.f("pk_kernelgym_tasks")),
    )
    op.create_index(op.f("ix_kernelgym_tasks_job_id"), "kernelgym_tasks", ["job_id"])


def downgrade() -> None:
    op.drop_table("kernelgym_tasks")
