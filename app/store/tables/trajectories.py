"""Tables of problems and of attempts at them: runs, trajectories, their turns, and candidates.

Source code and model answers are bytes: they hold NUL and lone surrogates, which
PostgreSQL's text refuses.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from app.store.tables.base import created_at, id_column, metadata, reference, short_id_index

problems = sa.Table(
    "problems",
    metadata,
    id_column("problem_id"),
    sa.Column("source_set", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("level", sa.Integer),
    sa.Column("entry_point", sa.Text, nullable=False),
    sa.Column("reference", sa.LargeBinary, nullable=False),
    sa.Column("reference_sha256", sa.Text, nullable=False),
    sa.Column("licence", sa.Text),  # SPDX where known; NULL where not stated
    # semantic key of the first evaluation (problem/observers/operators.py); NULL before
    sa.Column("operators", sa.Text),
    sa.Column(
        "prompt_json", sa.Text
    ),  # messages that the source set asks with, JSON; NULL where it has none
    sa.Column("claims", JSONB),  # further fields of its source, unchecked; NULL where it has none
    created_at(),
    sa.UniqueConstraint("source_set", "name", "reference_sha256", "entry_point"),
)

runs = sa.Table(
    "runs",
    metadata,
    id_column("run_id"),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("model", sa.Text),
    sa.Column("settings", JSONB, nullable=False, server_default="{}"),
    sa.Column("step", sa.Integer),
    created_at(),
)

trajectories = sa.Table(
    "trajectories",
    metadata,
    id_column("trajectory_id"),
    reference("problems.problem_id"),
    reference("runs.run_id", null=True),
    sa.Column("backend", sa.Text, nullable=False),
    sa.Column("label", sa.Text),
    sa.Column("claims", JSONB),  # further fields of its source, unchecked; NULL where it has none
    created_at(),
    short_id_index("trajectories", "trajectory_id"),
    sa.Index("ix_trajectories_label", "label", postgresql_ops={"label": "text_pattern_ops"}),
)

turns = sa.Table(
    "turns",
    metadata,
    id_column("turn_id"),
    reference("trajectories.trajectory_id", index=False),
    sa.Column("turn_index", sa.Integer, nullable=False),
    sa.Column(
        "messages_json", sa.Text, nullable=False
    ),  # ASCII-escaped JSON: lossless where JSONB is not
    sa.Column("response", sa.LargeBinary, nullable=False),
    reference("jobs.job_id", null=True),
    created_at(),
    sa.UniqueConstraint("trajectory_id", "turn_index"),
)

candidates = sa.Table(
    "candidates",
    metadata,
    id_column("candidate_id"),
    sa.Column("backend", sa.Text, nullable=False),
    sa.Column("source", sa.LargeBinary, nullable=False),
    sa.Column("source_sha256", sa.Text, nullable=False),
    created_at(),
    sa.UniqueConstraint("source_sha256", "backend"),
)
