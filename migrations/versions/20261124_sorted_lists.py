"""Indexes for lists in other orders than by time, and saved views of every list."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlencode

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "20261124so"
down_revision = "20261124se"
branch_labels = None
depends_on = None

VALUES = ("candidate_us", "coverage_time")
CREDITED = "speedup IS NOT NULL AND correct AND label <> 'hack' AND trajectory_id IS NOT NULL"


def upgrade() -> None:
    for name in VALUES:
        op.create_index(
            f"ix_evaluations_{name}",
            "evaluations",
            [sa.text(f"{name} DESC"), sa.text("evaluation_id DESC")],
            postgresql_where=sa.text(f"{name} IS NOT NULL"),
        )
    op.create_index(
        "ix_attempts_trajectory_id",
        "attempts",
        ["trajectory_id"],
        postgresql_where=sa.text("trajectory_id IS NOT NULL"),
    )
    op.create_index(
        "ix_attempts_speedup",
        "attempts",
        [sa.text("speedup DESC"), sa.text("trajectory_id DESC")],
        postgresql_where=sa.text(CREDITED),
    )
    for name in ("page", "query"):
        op.add_column(
            "saved_filters", sa.Column(name, sa.Text(), nullable=False, server_default="")
        )
    change = sa.text(
        "UPDATE saved_filters SET page = 'candidates.index', query = :query WHERE saved_filter_id ="
        " :key"
    )
    for row in (
        op.get_bind()
        .execute(sa.text("SELECT saved_filter_id, where_text, columns FROM saved_filters"))
        .all()
    ):
        arguments = ({"where": row.where_text} if row.where_text else {}) | {
            "columns": list(row.columns)
        }
        op.get_bind().execute(
            change, {"query": urlencode(arguments, doseq=True), "key": row.saved_filter_id}
        )
    op.drop_column("saved_filters", "where_text")
    op.drop_column("saved_filters", "columns")


def downgrade() -> None:
    op.execute("DELETE FROM saved_filters WHERE page <> 'candidates.index'")
    op.add_column(
        "saved_filters", sa.Column("where_text", sa.Text(), nullable=False, server_default="")
    )
    op.add_column(
        "saved_filters", sa.Column("columns", JSONB(), nullable=False, server_default="[]")
    )
    change = sa.text(
        "UPDATE saved_filters SET where_text = :where, columns = CAST(:columns AS jsonb) WHERE"
        " saved_filter_id = :key"
    )
    for row in (
        op.get_bind().execute(sa.text("SELECT saved_filter_id, query FROM saved_filters")).all()
    ):
        found = parse_qs(row.query)
        values = {
            "where": found.get("where", [""])[0],
            "columns": json.dumps(found.get("columns", [])),
        }
        op.get_bind().execute(change, values | {"key": row.saved_filter_id})
    op.alter_column("saved_filters", "where_text", server_default=None)
    op.drop_column("saved_filters", "query")
    op.drop_column("saved_filters", "page")
    op.drop_index("ix_attempts_speedup", "attempts")
    op.drop_index("ix_attempts_trajectory_id", "attempts")
    for name in VALUES:
        op.drop_index(f"ix_evaluations_{name}", "evaluations")
