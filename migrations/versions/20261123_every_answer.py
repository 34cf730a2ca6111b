"""Counts of attempts are of every answer, as in KernelBench's own analysis: those
that could not be evaluated, too.
"""

from __future__ import annotations

from alembic import op

revision = "20261123g"
down_revision = "20261123f"
branch_labels = None
depends_on = None

COUNTED = {
    "attempts": "count(*)",
    "correct": "count(*) FILTER (WHERE credited)",
    "passed": "count(*) FILTER (WHERE correct)",
    "hacks": "count(*) FILTER (WHERE label = 'hack')",
    "suspects": "count(*) FILTER (WHERE label = 'suspect')",
    "timed": "count(*) FILTER (WHERE timed)",
    "log_speedup_e9": "coalesce(sum(round(ln(speedup) * 1e9)::bigint) FILTER (WHERE timed), 0)",
    "faster_than_1": "count(*) FILTER (WHERE timed AND speedup > 1)",
    "faster_than_1_2": "count(*) FILTER (WHERE timed AND speedup > 1.2)",
    "faster_than_1_5": "count(*) FILTER (WHERE timed AND speedup > 1.5)",
    "faster_than_2": "count(*) FILTER (WHERE timed AND speedup > 2)",
}
CREDITED = """
    SELECT *, correct AND label <> 'hack' AS credited, correct AND label <> 'hack' AND speedup IS NOT NULL AS timed
    FROM {} {}
"""


def upgrade() -> None:
    _count("")


def downgrade() -> None:
    _count("WHERE valid")


def _count(condition: str) -> None:
    """Define the counts with that condition, and make them anew."""
    counts = ", ".join(f"{count} AS {name}" for name, count in COUNTED.items())
    signed = ", ".join(f"sign * {count}" for count in COUNTED.values())
    op.execute(f"""
        CREATE OR REPLACE VIEW attempt_counts_facts AS
        SELECT run_id, problem_id, {counts} FROM ({CREDITED.format("attempt_facts", condition)}) c
        GROUP BY run_id, problem_id
    """)
    op.execute(f"""
        CREATE OR REPLACE FUNCTION assay_attempts_changed() RETURNS trigger
        LANGUAGE plpgsql AS $$
        DECLARE
            sign constant integer := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
        BEGIN
            INSERT INTO attempt_counts
                SELECT run_id, problem_id, {signed} FROM ({CREDITED.format("changed", condition)}) c
                GROUP BY run_id, problem_id;
            RETURN NULL;
        END $$
    """)
    op.execute("LOCK TABLE attempts, attempt_counts IN SHARE ROW EXCLUSIVE MODE")
    op.execute("DELETE FROM attempt_counts")
    names = ", ".join(["run_id", "problem_id", *COUNTED])
    op.execute(f"INSERT INTO attempt_counts ({names}) SELECT {names} FROM attempt_counts_facts")
