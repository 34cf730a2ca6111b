"""Code that compilers made of kernels."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261124kc"
down_revision = "20261124rr"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "kernel_codes",
        sa.Column("evaluation_id", sa.Uuid(), nullable=False),
        sa.Column("raw_bytes", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluations.evaluation_id"], name="fk_kernel_codes_evaluation_id"
        ),
        sa.PrimaryKeyConstraint("evaluation_id", name="pk_kernel_codes"),
    )
    op.execute("ALTER TABLE kernel_codes ALTER COLUMN body SET STORAGE EXTERNAL")


def downgrade() -> None:
    op.drop_table("kernel_codes")
