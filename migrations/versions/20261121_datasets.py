"""For datasets: facts about texts, licences of problems, export jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "20261121x"
down_revision = "20261121u"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("problems", sa.Column("licence", sa.Text()))
    _features(
        "problem",
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
    )
    op.create_index("ix_problem_features_family", "problem_features", ["family"])
    _features(
        "candidate",
        sa.Column("normalised", sa.Text(), nullable=False),
        sa.Column("renamed", sa.Text(), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
    )
    _features("turn", sa.Column("extraction", sa.Text(), nullable=False))
    op.create_table(
        "export_jobs",
        sa.Column("export_job_id", sa.Uuid(), nullable=False),
        sa.Column("spec", JSONB(), nullable=False),
        sa.Column("directory", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="queued", nullable=False),
        sa.Column("stage", sa.Text(), server_default="", nullable=False),
        sa.Column("done", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("total", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("export_id", sa.Uuid()),
        sa.Column("error", sa.Text()),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True)),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'finished', 'failed', 'cancelled')",
            name=op.f("ck_export_jobs_state"),
        ),
        sa.CheckConstraint(
            "(state = 'finished') = (export_id IS NOT NULL)", name=op.f("ck_export_jobs_export")
        ),
        sa.CheckConstraint(
            "(state = 'failed') = (error IS NOT NULL)", name=op.f("ck_export_jobs_error")
        ),
        sa.ForeignKeyConstraint(
            ["export_id"], ["exports.export_id"], name="fk_export_jobs_export_id"
        ),
        sa.PrimaryKeyConstraint("export_job_id", name="pk_export_jobs"),
    )
    op.create_index("ix_export_jobs_created_at", "export_jobs", [sa.text("created_at DESC")])


def downgrade() -> None:
    for table in ("export_jobs", "turn_features", "candidate_features", "problem_features"):
        op.drop_table(table)
    op.drop_column("problems", "licence")


def _features(noun: str, *columns: sa.Column) -> None:  # type: ignore[type-arg]
    """A table of facts about one noun's texts."""
    op.create_table(
        f"{noun}_features",
        sa.Column(f"{noun}_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        *columns,
        sa.ForeignKeyConstraint(
            [f"{noun}_id"], [f"{noun}s.{noun}_id"], name=f"fk_{noun}_features_{noun}_id"
        ),
        sa.PrimaryKeyConstraint(f"{noun}_id", name=f"pk_{noun}_features"),
    )
