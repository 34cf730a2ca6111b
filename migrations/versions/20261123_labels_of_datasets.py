"""Labels that changed since a dataset was made, evaluation by evaluation; single
jobs belong to the run they name.

A dataset is stale while one of its labels differs, and fresh again when the label comes back.  An
evaluation that no turn asked for is an attempt of its job's run.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261123l"
down_revision = "20261123c"
branch_labels = None
depends_on = None

ATTEMPTS = """
    CREATE OR REPLACE VIEW attempt_facts AS
    SELECT t.turn_id AS attempt_id, e.evaluation_id, t.turn_id, t.trajectory_id, t.turn_index, r.run_id,
           r.problem_id, e.status, e.valid, e.correct, coalesce(e.human_verdict, v.label) AS label, e.speedup,
           e.created_at
    FROM verdicts v JOIN evaluations e USING (evaluation_id) JOIN turns t USING (job_id)
         JOIN trajectories r USING (trajectory_id)
    WHERE v.is_current
    UNION ALL
    SELECT t.turn_id, NULL, t.turn_id, t.trajectory_id, t.turn_index, r.run_id,
           r.problem_id, 'no_code', true, false, NULL, NULL, t.created_at
    FROM turns t JOIN trajectories r USING (trajectory_id)
    WHERE t.job_id IS NULL
    UNION ALL
    SELECT e.evaluation_id, e.evaluation_id, NULL, NULL, NULL, {},
           j.problem_id, e.status, e.valid, e.correct, coalesce(e.human_verdict, v.label), e.speedup,
           e.created_at
    FROM verdicts v JOIN evaluations e USING (evaluation_id) JOIN jobs j USING (job_id)
    WHERE v.is_current AND NOT EXISTS (SELECT FROM turns t WHERE t.job_id = e.job_id)
"""
AGAIN = """
    SELECT assay_refresh_attempts(array_agg(a.evaluation_id), '{}')
    FROM attempts a JOIN evaluations e USING (evaluation_id) JOIN jobs j USING (job_id)
    WHERE a.turn_id IS NULL AND j.run_id IS NOT NULL
"""
"""Attempts whose run the two definitions see differently."""


def upgrade() -> None:
    op.create_table(
        "export_changes",
        sa.Column("export_id", sa.Uuid(), nullable=False),
        sa.Column("evaluation_id", sa.Uuid(), nullable=False),
        sa.Column("label_then", sa.Text()),
        sa.Column("label_now", sa.Text()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()
        ),
        sa.ForeignKeyConstraint(
            ["export_id"],
            ["exports.export_id"],
            name="fk_export_changes_export_id_exports",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["evaluation_id"],
            ["evaluations.evaluation_id"],
            name="fk_export_changes_evaluation_id_evaluations",
        ),
        sa.PrimaryKeyConstraint("export_id", "evaluation_id", name="pk_export_changes"),
    )
    op.create_index("ix_export_changes_evaluation_id", "export_changes", ["evaluation_id"])
    op.execute(ATTEMPTS.format("j.run_id"))
    op.execute(AGAIN)


def downgrade() -> None:
    op.execute(ATTEMPTS.format("NULL::uuid"))
    op.execute(AGAIN)
    op.drop_table("export_changes")
