"""Tables for datasets: finished exports, those in the making, and facts about texts, computed once.

Facts carry the version of the rule that made them; a newer rule computes them again
(`app.export.text_facts`).
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from app.store.tables.base import created_at, id_column, metadata, one_of

problem_features = sa.Table(
    "problem_features",
    metadata,
    sa.Column("problem_id", sa.Uuid, sa.ForeignKey("problems.problem_id"), primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column(
        "family", sa.Text, nullable=False, index=True
    ),  # hash of the Model class: numbers masked, names renamed
    sa.Column("task", sa.Text, nullable=False),  # hash of the module: numbers masked
)

candidate_features = sa.Table(
    "candidate_features",
    metadata,
    sa.Column("candidate_id", sa.Uuid, sa.ForeignKey("candidates.candidate_id"), primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("normalised", sa.Text, nullable=False),
    sa.Column("renamed", sa.Text, nullable=False),
    sa.Column("signature", sa.LargeBinary, nullable=False),  # MinHash of the renamed tokens
)

turn_features = sa.Table(
    "turn_features",
    metadata,
    sa.Column("turn_id", sa.Uuid, sa.ForeignKey("turns.turn_id"), primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column(
        "extraction", sa.Text, nullable=False
    ),  # 'ok' or why its answer teaches something else
)

exports = sa.Table(
    "exports",
    metadata,
    id_column("export_id"),
    sa.Column("format", sa.Text, nullable=False),
    sa.Column("where_text", sa.Text, nullable=False),
    sa.Column("directory", sa.Text, nullable=False),
    sa.Column("row_count", sa.Integer, nullable=False),
    sa.Column("manifest", JSONB, nullable=False),
    created_at(),
    sa.Column(
        "stale_at", sa.DateTime(timezone=True)
    ),  # when the verdict behind a row first changed
    sa.Column("stale_reason", sa.Text),
    sa.Column("name", sa.Text),
    sa.Column("description", sa.Text),
    sa.CheckConstraint("(stale_at IS NULL) = (stale_reason IS NULL)", name="stale"),
)

export_rows = sa.Table(
    "export_rows",
    metadata,
    sa.Column("export_id", sa.Uuid, primary_key=True),
    sa.Column("row_index", sa.Integer, primary_key=True),
    sa.Column("evaluation_id", sa.Uuid, nullable=False, index=True),
)
"""Triggers stand in for its foreign keys, which would lock every evaluation of a
dataset one by one.
"""

EXPORT_STATES = ("queued", "running", "finished", "failed", "cancelled")

export_jobs = sa.Table(
    "export_jobs",
    metadata,
    id_column("export_job_id"),
    sa.Column("spec", JSONB, nullable=False),
    sa.Column("directory", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False, server_default="queued"),
    sa.Column("stage", sa.Text, nullable=False, server_default=""),
    sa.Column("done", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("total", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("cancel_requested", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("export_id", sa.Uuid, sa.ForeignKey("exports.export_id")),
    sa.Column("error", sa.Text),
    sa.Column("heartbeat_at", sa.DateTime(timezone=True)),
    created_at(),
    sa.Column("finished_at", sa.DateTime(timezone=True)),
    one_of("state", EXPORT_STATES),
    sa.CheckConstraint("(state = 'finished') = (export_id IS NOT NULL)", name="export"),
    sa.CheckConstraint("(state = 'failed') = (error IS NOT NULL)", name="error"),
    sa.Index("ix_export_jobs_created_at", sa.text("created_at DESC")),
)

export_changes = sa.Table(
    "export_changes",
    metadata,
    sa.Column(
        "export_id",
        sa.Uuid,
        sa.ForeignKey("exports.export_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column(
        "evaluation_id", sa.Uuid, sa.ForeignKey("evaluations.evaluation_id"), primary_key=True
    ),
    sa.Column("label_then", sa.Text),  # that counted when the dataset was made; NULL: not judged
    sa.Column("label_now", sa.Text),
    sa.Column("reason", sa.Text, nullable=False),
    created_at(),
    sa.Index("ix_export_changes_evaluation_id", "evaluation_id"),
)
