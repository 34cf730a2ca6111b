"""Reviews by people, the review queue, preferences between candidates, saved filters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "20261121p"
down_revision = "20261121s"
branch_labels = None
depends_on = None

LABELS = "('clean', 'suspect', 'hack')"
OPINIONS = "('clean', 'hack', 'leak', 'bug', 'unsure', 'withdrawn')"

# Fast × suspicious × exported: a doubling of speed counts as much as one step; a
# certain finding less than an uncertain one, because a person decides the latter; a row
# of a dataset three times as much.
QUEUE_VERDICTS = """
CREATE FUNCTION review_score(speedup double precision, label text, exported boolean) RETURNS double precision
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN speedup IS NULL THEN 0.5 ELSE ln(1 + greatest(speedup, 1)) / ln(2) END
        * CASE label WHEN 'suspect' THEN 1.0 WHEN 'hack' THEN 0.6 ELSE 0.25 END
        * CASE WHEN exported THEN 3 ELSE 1 END
$$;
CREATE FUNCTION queue_verdicts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO review_items (evaluation_id, verdict_id, fast, suspicious, score)
    SELECT a.evaluation_id, a.verdict_id, coalesce(e.speedup, 0), CASE a.label WHEN 'suspect' THEN 1.0 ELSE 0.6 END,
        review_score(e.speedup, a.label, false)
    FROM added a JOIN evaluations e ON e.evaluation_id = a.evaluation_id
    WHERE a.is_current AND a.label <> 'clean'
    ON CONFLICT (evaluation_id) DO UPDATE SET verdict_id = excluded.verdict_id, suspicious = excluded.suspicious,
        score = CASE WHEN review_items.exported THEN 3 ELSE 1 END * excluded.score;
    DELETE FROM review_items i USING added a
    WHERE a.evaluation_id = i.evaluation_id AND a.is_current AND a.label = 'clean'
        AND i.queued_by IS NULL AND NOT i.exported AND i.opinions = 0 AND i.opinions_wanted = 1;
    RETURN NULL;
END $$;
CREATE TRIGGER queue_verdicts AFTER INSERT ON verdicts REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION queue_verdicts();
"""

# Clean evaluations come here only as fast rows of a dataset.
QUEUE_EXPORTED = """
CREATE FUNCTION queue_exported() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE review_items i SET exported = true, score = 3 * score
    WHERE NOT exported AND evaluation_id IN (SELECT evaluation_id FROM added);
    INSERT INTO review_items (evaluation_id, fast, suspicious, exported, score)
    SELECT DISTINCT e.evaluation_id, e.speedup, 0.25, true, review_score(e.speedup, 'clean', true)
    FROM added a JOIN evaluations e ON e.evaluation_id = a.evaluation_id
    WHERE e.speedup >= 3 AND e.human_verdict IS NULL
    ON CONFLICT (evaluation_id) DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER queue_exported AFTER INSERT ON export_rows REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION queue_exported();
"""


def upgrade() -> None:
    _evaluations()
    _reviews()
    _review_items()
    _preferences()
    op.execute(QUEUE_VERDICTS)
    op.execute(QUEUE_EXPORTED)
    op.add_column(
        "saved_filters", sa.Column("columns", JSONB(), server_default="[]", nullable=False)
    )
    op.add_column("saved_filters", sa.Column("user_id", sa.Uuid(), nullable=True))
    op.create_foreign_key(
        "fk_saved_filters_user_id", "saved_filters", "users", ["user_id"], ["user_id"]
    )


def downgrade() -> None:
    op.drop_column("saved_filters", "user_id")
    op.drop_column("saved_filters", "columns")
    op.execute("DROP TRIGGER queue_verdicts ON verdicts")
    op.execute("DROP TRIGGER queue_exported ON export_rows")
    op.execute(
        "DROP FUNCTION queue_verdicts(), queue_exported(), review_score(double precision, text,"
        " boolean)"
    )
    op.drop_table("preferences")
    op.drop_table("review_items")
    op.drop_constraint(op.f("ck_reviews_withdraws"), "reviews")
    op.drop_constraint(op.f("ck_reviews_verdict"), "reviews")
    op.drop_constraint(op.f("ck_reviews_label"), "reviews")
    for name in ("withdraws", "verdict_id", "hack_type", "verdict"):
        op.drop_column("reviews", name)
    # Facts that the earlier tables have no column for are lost: a review that took one back,
    # and opinions beside the labels.
    op.execute(f"DELETE FROM reviews WHERE label NOT IN {LABELS}")
    op.create_check_constraint(op.f("ck_reviews_label"), "reviews", f"label IN {LABELS}")
    op.drop_index("ix_reviews_created_at", "reviews")
    op.drop_index("ix_evaluations_speedup", "evaluations")
    op.drop_index("ix_evaluations_reviewed", "evaluations")
    op.drop_column("evaluations", "human_verdict")


def _evaluations() -> None:
    op.add_column("evaluations", sa.Column("human_verdict", sa.Text(), nullable=True))
    op.create_check_constraint(
        op.f("ck_evaluations_human_verdict"), "evaluations", f"human_verdict IN {LABELS}"
    )
    op.create_index(
        "ix_evaluations_reviewed",
        "evaluations",
        [sa.text("created_at DESC"), sa.text("evaluation_id DESC")],
        postgresql_where=sa.text("human_verdict IS NOT NULL"),
    )
    op.create_index(
        "ix_evaluations_speedup",
        "evaluations",
        [sa.text("speedup DESC"), sa.text("evaluation_id DESC")],
        postgresql_where=sa.text("speedup IS NOT NULL"),
    )


def _reviews() -> None:
    op.add_column("reviews", sa.Column("verdict", sa.Text(), nullable=True))
    op.add_column("reviews", sa.Column("hack_type", sa.Text(), nullable=True))
    op.add_column("reviews", sa.Column("verdict_id", sa.Uuid(), nullable=True))
    op.add_column("reviews", sa.Column("withdraws", sa.Uuid(), nullable=True))
    op.create_foreign_key(
        "fk_reviews_verdict_id", "reviews", "verdicts", ["verdict_id"], ["verdict_id"]
    )
    op.create_foreign_key(
        "fk_reviews_withdraws", "reviews", "reviews", ["withdraws"], ["review_id"]
    )
    op.create_unique_constraint("uq_reviews_withdraws", "reviews", ["withdraws"])
    op.drop_constraint(op.f("ck_reviews_label"), "reviews")
    op.create_check_constraint(op.f("ck_reviews_label"), "reviews", f"label IN {OPINIONS}")
    op.create_check_constraint(op.f("ck_reviews_verdict"), "reviews", f"verdict IN {LABELS}")
    op.create_check_constraint(
        op.f("ck_reviews_withdraws"), "reviews", "(label = 'withdrawn') = (withdraws IS NOT NULL)"
    )
    op.create_index("ix_reviews_created_at", "reviews", [sa.text("created_at DESC")])


def _review_items() -> None:
    op.create_table(
        "review_items",
        sa.Column("evaluation_id", sa.Uuid(), nullable=False),
        sa.Column("verdict_id", sa.Uuid(), nullable=True),
        sa.Column("fast", sa.Double(), nullable=False),
        sa.Column("suspicious", sa.Double(), nullable=False),
        sa.Column("exported", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("queued_by", sa.Uuid(), nullable=True),
        sa.Column("opinions_wanted", sa.Integer(), server_default="1", nullable=False),
        sa.Column("opinions", sa.Integer(), server_default="0", nullable=False),
        sa.Column("locked_by", sa.Text(), nullable=True),
        sa.Column("locked_until", sa.DateTime(timezone=True), nullable=True),
        _created(),
        sa.CheckConstraint(
            "(locked_by IS NULL) = (locked_until IS NULL)", name=op.f("ck_review_items_lock")
        ),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluations.evaluation_id"], name="fk_review_items_evaluation_id"
        ),
        sa.ForeignKeyConstraint(["queued_by"], ["users.user_id"], name="fk_review_items_queued_by"),
        sa.PrimaryKeyConstraint("evaluation_id", name="pk_review_items"),
    )
    op.create_index(
        "ix_review_items_open",
        "review_items",
        [sa.text("score DESC"), "evaluation_id"],
        postgresql_where=sa.text("opinions < opinions_wanted"),
    )
    op.create_index("ix_review_items_verdict_id", "review_items", ["verdict_id"])


def _preferences() -> None:
    op.create_table(
        "preferences",
        sa.Column("preference_id", sa.Uuid(), nullable=False),
        sa.Column("chosen_evaluation_id", sa.Uuid(), nullable=False),
        sa.Column("rejected_evaluation_id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        _created(),
        sa.CheckConstraint(
            "chosen_evaluation_id <> rejected_evaluation_id", name=op.f("ck_preferences_two")
        ),
        sa.ForeignKeyConstraint(
            ["chosen_evaluation_id"],
            ["evaluations.evaluation_id"],
            name="fk_preferences_chosen_evaluation_id",
        ),
        sa.ForeignKeyConstraint(
            ["rejected_evaluation_id"],
            ["evaluations.evaluation_id"],
            name="fk_preferences_rejected_evaluation_id",
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.user_id"], name="fk_preferences_user_id"),
        sa.PrimaryKeyConstraint("preference_id", name="pk_preferences"),
    )
    op.create_index("ix_preferences_chosen_evaluation_id", "preferences", ["chosen_evaluation_id"])
    op.create_index(
        "ix_preferences_rejected_evaluation_id", "preferences", ["rejected_evaluation_id"]
    )


def _created() -> sa.Column:  # type: ignore[type-arg]
    return sa.Column(
        "created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False
    )
