"""The cost of a call does not grow with its collection.

The next attempt is the first entry of its index: before, every attempt that was ready was read and
sorted.  The triggers' statements look up few rows by their ids.  Their plans are kept per
connection, so one that was made while the tables were small (reading them whole) stayed in use
until they were analysed; now a plan goes index by index always, and is made once.
"""

from __future__ import annotations

from alembic import op

revision = "20261124cc"
down_revision = "20261124so"
branch_labels = None
depends_on = None

BY_INDEX = ("assay_refresh_attempts(uuid[], uuid[])", "assay_count_verdicts(uuid[], integer)")
"""Functions whose statements find few rows by id."""
SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}


def upgrade() -> None:
    _index("endpoint, (turn = 0), due_at, node_id")
    _refresh(
        turns="IF turn_ids <> '{}' THEN",
        evaluations="IF evaluation_ids <> '{}' THEN",
        end="END IF;",
    )
    for function in BY_INDEX:
        for name, value in SETTINGS.items():
            op.execute(f"ALTER FUNCTION {function} SET {name} = {value}")


def downgrade() -> None:
    for function in BY_INDEX:
        op.execute(f"ALTER FUNCTION {function} RESET ALL")
    _refresh(turns="", evaluations="", end="")
    _index("endpoint, due_at")


def _index(columns: str) -> None:
    op.execute("DROP INDEX ix_nodes_ready")
    op.execute(f"CREATE INDEX ix_nodes_ready ON nodes ({columns}) WHERE state = 'ready'")


def _refresh(*, turns: str, evaluations: str, end: str) -> None:
    """The function of 20261121_rollups, with conditions: a statement on `attempts`
    fires triggers, for no row, too.
    """
    op.execute(f"""
        CREATE OR REPLACE FUNCTION assay_refresh_attempts(evaluation_ids uuid[], turn_ids uuid[]) RETURNS void
        LANGUAGE plpgsql AS $$
        BEGIN
            {evaluations}
                DELETE FROM attempts WHERE evaluation_id = ANY (evaluation_ids);
            {end}
            {turns}
                DELETE FROM attempts WHERE attempt_id = ANY (turn_ids);
            {end}
            {evaluations}
                INSERT INTO attempts SELECT * FROM attempt_facts WHERE evaluation_id = ANY (evaluation_ids);
            {end}
            {turns}
                INSERT INTO attempts SELECT * FROM attempt_facts
                WHERE turn_id = ANY (turn_ids) AND evaluation_id IS NULL;
            {end}
        END $$
    """)
