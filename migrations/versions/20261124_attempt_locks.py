"""One transaction at a time refreshes the attempts of a job.

Two transactions that add turns to one evaluated job each deleted and inserted the same row of
`attempts`, and the second one failed on its primary key.  A turn and a verdict stored at the same
moment did not see each other.
"""

from __future__ import annotations

from alembic import op

revision = "20261124al"
down_revision = "20261124rk"
branch_labels = None
depends_on = None

LOCK_CLASS = 7_203_125
"""First key of the advisory locks: any number that no other lock of the project has."""
SLOTS = 1024
"""Locks that one transaction can hold at most: a transaction over many jobs must fit
PostgreSQL's lock table.
"""


def upgrade() -> None:
    op.execute(f"""
        CREATE FUNCTION assay_lock_attempts(job_ids uuid[]) RETURNS void
        LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_advisory_xact_lock({LOCK_CLASS}, slot) FROM (
                SELECT DISTINCT hashtext(job_id::text) & {SLOTS - 1} AS slot FROM unnest(job_ids) job_id ORDER BY slot
            ) ordered;
        END $$
    """)
    _functions(
        of_verdicts="""
            PERFORM assay_lock_attempts(
                ARRAY(SELECT job_id FROM evaluations JOIN new_rows USING (evaluation_id) WHERE job_id IS NOT NULL)
            );
        """,
        of_turns="PERFORM assay_lock_attempts(job_ids);",
    )


def downgrade() -> None:
    _functions(of_verdicts="", of_turns="")
    op.execute("DROP FUNCTION assay_lock_attempts(uuid[])")


def _functions(*, of_verdicts: str, of_turns: str) -> None:
    """The trigger functions of 20261121_rollups, with a statement before the rows are read."""
    op.execute(f"""
        CREATE OR REPLACE FUNCTION assay_verdicts_changed() RETURNS trigger
        LANGUAGE plpgsql AS $$
        DECLARE
            gone uuid[] := '{{}}';
            come uuid[] := ARRAY(SELECT verdict_id FROM new_rows WHERE is_current);
        BEGIN
            {of_verdicts}
            IF TG_OP = 'UPDATE' THEN
                gone := ARRAY(SELECT verdict_id FROM old_rows WHERE is_current);
                PERFORM assay_count_verdicts(gone, -1);
            END IF;
            PERFORM assay_count_verdicts(come, 1);
            PERFORM assay_refresh_attempts(ARRAY(SELECT DISTINCT evaluation_id FROM new_rows), '{{}}');
            PERFORM pg_notify('assay_live', 'evaluations');
            RETURN NULL;
        END $$
    """)
    op.execute(f"""
        CREATE OR REPLACE FUNCTION assay_turns_changed() RETURNS trigger
        LANGUAGE plpgsql AS $$
        DECLARE
            job_ids uuid[] := '{{}}';
            turn_ids uuid[] := '{{}}';
        BEGIN
            IF TG_OP <> 'INSERT' THEN
                turn_ids := ARRAY(SELECT turn_id FROM old_rows);
                job_ids := ARRAY(SELECT job_id FROM old_rows WHERE job_id IS NOT NULL);
            END IF;
            IF TG_OP <> 'DELETE' THEN
                turn_ids := turn_ids || ARRAY(SELECT turn_id FROM new_rows);
                job_ids := job_ids || ARRAY(SELECT job_id FROM new_rows WHERE job_id IS NOT NULL);
            END IF;
            {of_turns}
            PERFORM assay_refresh_attempts(
                ARRAY(SELECT evaluation_id FROM evaluations WHERE job_id = ANY (job_ids)), turn_ids
            );
            PERFORM pg_notify('assay_live', 'trajectories');
            RETURN NULL;
        END $$
    """)
