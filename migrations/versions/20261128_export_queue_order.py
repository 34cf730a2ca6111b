"""Rows of the review queue are locked by their ids when a dataset is recorded.

Two datasets that were recorded at the same moment, or one and a reviewer, could wait for each other.
"""

from __future__ import annotations

from alembic import op

revision = "20261128eq"
down_revision = "20261128rv"
branch_labels = None
depends_on = None

QUEUE_EXPORTED = """
CREATE OR REPLACE FUNCTION queue_exported() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {lock}
    UPDATE review_items i SET exported = true, score = 3 * score
    WHERE NOT exported AND evaluation_id IN (SELECT evaluation_id FROM added);
    INSERT INTO review_items (evaluation_id, fast, suspicious, exported, score)
    SELECT DISTINCT e.evaluation_id, e.speedup, 0.25, true, review_score(e.speedup, 'clean', true)
    FROM added a JOIN evaluations e ON e.evaluation_id = a.evaluation_id
    WHERE e.speedup >= 3 AND e.human_verdict IS NULL
    {order}
    ON CONFLICT (evaluation_id) DO NOTHING;
    RETURN NULL;
END $$
"""

LOCK = """PERFORM 1 FROM review_items
    WHERE NOT exported AND evaluation_id IN (SELECT evaluation_id FROM added)
    ORDER BY evaluation_id FOR NO KEY UPDATE;"""


def upgrade() -> None:
    op.execute(QUEUE_EXPORTED.format(lock=LOCK, order="ORDER BY e.evaluation_id"))


def downgrade() -> None:
    op.execute(QUEUE_EXPORTED.format(lock="", order=""))
