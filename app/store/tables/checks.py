"""Table of the checks of problems before the first attempt."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from app.domain.problem_check import OUTCOMES
from app.store.tables.base import id_column, metadata, one_of, reference

problem_checks = sa.Table(
    "problem_checks",
    metadata,
    id_column("problem_check_id"),
    reference("problems.problem_id", index=False),
    reference("jobs.job_id", null=True),  # NULL for a check that ran without the queue
    sa.Column("device_class", sa.Text, nullable=False),
    sa.Column("device_name", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("protocol", sa.Text, nullable=False),
    sa.Column("row", JSONB, nullable=False),  # app.domain.problem_check.CheckRow
    sa.Column("checked_at", sa.DateTime(timezone=True), nullable=False),
    one_of("outcome", OUTCOMES),
    sa.UniqueConstraint("problem_id", "device_class"),  # the latest counts
)
