"""Items of the review queue know their label and their detectors.

A filter of the queue looked both up for each of its items, in tables of a million rows: 70,000
places to read before the first page when none is cached.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "20261128rv"
down_revision = "20261128rr"
branch_labels = None
depends_on = None

REFRESH = """
CREATE FUNCTION review_refresh(changed uuid[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    queued uuid[] := ARRAY(SELECT evaluation_id FROM review_items WHERE evaluation_id = ANY (changed));
BEGIN
    IF queued = '{}' THEN
        RETURN;
    END IF;
    UPDATE review_items i SET label = f.label, detectors = f.detectors
    FROM (
        SELECT e.evaluation_id, coalesce(e.human_verdict, v.label) AS label,
            ARRAY(SELECT DISTINCT detector FROM findings WHERE verdict_id = v.verdict_id ORDER BY 1)
                AS detectors
        FROM evaluations e LEFT JOIN verdicts v ON v.evaluation_id = e.evaluation_id AND v.is_current
        WHERE e.evaluation_id = ANY (queued)
    ) f
    WHERE f.evaluation_id = i.evaluation_id
        AND (i.label, i.detectors) IS DISTINCT FROM (f.label, f.detectors);
END $$
"""

CHANGES = {
    "review_items": ("INSERT", "NEW", "SELECT evaluation_id FROM changed"),
    "verdicts": ("INSERT UPDATE DELETE", "NEW NEW OLD", "SELECT evaluation_id FROM changed"),
    "findings": (
        "INSERT DELETE",
        "NEW OLD",
        "SELECT v.evaluation_id FROM changed c JOIN verdicts v USING (verdict_id) WHERE v.is_current",
    ),
    "evaluations": ("UPDATE", "NEW", "SELECT evaluation_id FROM changed"),
}
"""Table → its changes, the rows of each that count, and the evaluations that they are about."""


def upgrade() -> None:
    op.add_column("review_items", sa.Column("label", sa.Text(), nullable=True))
    op.add_column(
        "review_items",
        sa.Column("detectors", ARRAY(sa.Text()), server_default="{}", nullable=False),
    )
    op.execute(REFRESH)
    op.execute("SELECT review_refresh(ARRAY(SELECT evaluation_id FROM review_items))")
    for table, (events, rows, query) in CHANGES.items():
        op.execute(
            f"CREATE FUNCTION review_{table}_changed() RETURNS trigger LANGUAGE plpgsql AS $$"
            f" BEGIN PERFORM review_refresh(ARRAY({query})); RETURN NULL; END $$"
        )
        for event, row in zip(events.split(), rows.split(), strict=True):
            # After the triggers that fill the queue: PostgreSQL takes them by name.
            op.execute(
                f"CREATE TRIGGER review_{event.lower()} AFTER {event} ON {table} REFERENCING {row}"
                f" TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION review_{table}_changed()"
            )


def downgrade() -> None:
    for table, (events, _, _) in CHANGES.items():
        for event in events.split():
            op.execute(f"DROP TRIGGER review_{event.lower()} ON {table}")
        op.execute(f"DROP FUNCTION review_{table}_changed()")
    op.execute("DROP FUNCTION review_refresh(uuid[])")
    op.drop_column("review_items", "detectors")
    op.drop_column("review_items", "label")
