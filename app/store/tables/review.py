"""Tables of people's reviews: labels, the review queue, and preferences between two candidates."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain.review import Opinion
from app.domain.verdict import Label
from app.store.tables.base import created_at, id_column, metadata, one_of, reference

reviews = sa.Table(
    "reviews",
    metadata,
    id_column("review_id"),
    reference("evaluations.evaluation_id"),
    reference("users.user_id", null=True),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("verdict", sa.Text),  # the Label that counts; NULL where the detectors' does
    sa.Column("hack_type", sa.Text),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column(
        "verdict_id", sa.Uuid, sa.ForeignKey("verdicts.verdict_id")
    ),  # the detectors' verdict at that time
    sa.Column("withdraws", sa.Uuid, sa.ForeignKey("reviews.review_id"), unique=True),
    created_at(),
    one_of("label", Opinion),
    one_of("verdict", Label),
    sa.CheckConstraint("(label = 'withdrawn') = (withdraws IS NOT NULL)", name="withdraws"),
    sa.Index("ix_reviews_created_at", sa.text("created_at DESC")),
)

review_items = sa.Table(
    "review_items",
    metadata,
    sa.Column(
        "evaluation_id", sa.Uuid, sa.ForeignKey("evaluations.evaluation_id"), primary_key=True
    ),
    sa.Column(
        "verdict_id", sa.Uuid
    ),  # the automatic verdict that brought it here; NULL where a person did
    sa.Column("label", sa.Text),  # the one that counts; with `detectors` kept by triggers
    sa.Column("detectors", ARRAY(sa.Text), nullable=False, server_default="{}"),
    sa.Column("fast", sa.Double, nullable=False),
    sa.Column("suspicious", sa.Double, nullable=False),
    sa.Column("exported", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("score", sa.Double, nullable=False),
    reference("users.user_id", name="queued_by", null=True, index=False),
    sa.Column("opinions_wanted", sa.Integer, nullable=False, server_default="1"),
    sa.Column("opinions", sa.Integer, nullable=False, server_default="0"),
    sa.Column("locked_by", sa.Text),  # name of a user
    sa.Column("locked_until", sa.DateTime(timezone=True)),
    created_at(),
    sa.CheckConstraint("(locked_by IS NULL) = (locked_until IS NULL)", name="lock"),
    sa.Index(
        "ix_review_items_open",
        sa.text("score DESC"),
        "evaluation_id",
        postgresql_where=sa.text("opinions < opinions_wanted"),
    ),
    sa.Index("ix_review_items_verdict_id", "verdict_id"),
)

preferences = sa.Table(
    "preferences",
    metadata,
    id_column("preference_id"),
    reference("evaluations.evaluation_id", name="chosen_evaluation_id"),
    reference("evaluations.evaluation_id", name="rejected_evaluation_id"),
    reference("users.user_id", null=True, index=False),
    sa.Column("reason", sa.Text, nullable=False),
    created_at(),
    sa.CheckConstraint("chosen_evaluation_id <> rejected_evaluation_id", name="two"),
)

review_queues = sa.Table(
    "review_queues",
    metadata,
    id_column("review_queue_id"),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("verdict", sa.Text, nullable=False),  # conditions: empty ones exclude nothing
    sa.Column("detector", sa.Text, nullable=False),
    sa.Column("run", sa.Text, nullable=False),
    reference("users.user_id", null=True, index=False),  # author
    created_at(),
)

review_queue_reviewers = sa.Table(
    "review_queue_reviewers",
    metadata,
    sa.Column(
        "review_queue_id",
        sa.Uuid,
        sa.ForeignKey("review_queues.review_queue_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("user_id", sa.Uuid, sa.ForeignKey("users.user_id"), primary_key=True),
)
