"""Roll-ups read by dashboards in place of counting: kept by triggers
(migrations/versions/20261121_rollups.py), so that every way of writing keeps them, in
the same transaction.

`attempts` is a copy, narrow and in one place, of the view `attempt_facts`.  The other tables are
counted as deltas: a trigger only ever appends rows, so that no two transactions wait for each
other; readers sum, and `app.store.figures.rollups.fold` merges rows of one key from time to time.
Logarithms are integers, because sums of floats depend on their order.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.store.tables.base import metadata

attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column(
        "attempt_id", sa.Uuid, primary_key=True
    ),  # id of its turn, or of its evaluation where no turn asked for it
    sa.Column("evaluation_id", sa.Uuid, index=True),  # NULL: an answer without code
    sa.Column("turn_id", sa.Uuid),
    sa.Column("trajectory_id", sa.Uuid),
    sa.Column("turn_index", sa.Integer),
    sa.Column("run_id", sa.Uuid, index=True),
    sa.Column("problem_id", sa.Uuid, nullable=False),
    sa.Column("status", sa.Text, nullable=False),  # the evaluation's, or 'no_code'
    sa.Column("valid", sa.Boolean, nullable=False),
    sa.Column("correct", sa.Boolean, nullable=False),  # measured, independent of the verdict
    sa.Column(
        "label", sa.Text
    ),  # that counts: a person's, else the detectors'; NULL: an answer without code
    sa.Column("speedup", sa.Double),  # measured, independent of the verdict
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Index("ix_attempts_problem_id_status", "problem_id", "status"),
    sa.Index(
        "ix_attempts_problem_id_speedup",
        "problem_id",
        sa.text("speedup DESC"),
        postgresql_where=sa.text("speedup IS NOT NULL AND correct AND label <> 'hack'"),
    ),
    sa.Index(
        "ix_attempts_trajectory_id",
        "trajectory_id",
        postgresql_where=sa.text("trajectory_id IS NOT NULL"),
    ),
    sa.Index(
        "ix_attempts_without_code",
        "created_at",
        postgresql_where=sa.text("evaluation_id IS NULL AND run_id IS NOT NULL"),
    ),
    sa.Index(  # the fastest trajectories
        "ix_attempts_speedup",
        sa.text("speedup DESC"),
        sa.text("trajectory_id DESC"),
        postgresql_where=sa.text(
            "speedup IS NOT NULL AND correct AND label <> 'hack' AND trajectory_id IS NOT NULL"
        ),
    ),
)


def _counted(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False)


attempt_counts = sa.Table(
    "attempt_counts",
    metadata,
    sa.Column("run_id", sa.Uuid, index=True),
    sa.Column("problem_id", sa.Uuid, nullable=False, index=True),
    _counted("attempts"),  # every answer, see app.domain.metrics.COUNTED
    _counted("correct"),  # and no hack
    _counted("passed"),  # correct as measured, hacks included
    _counted("hacks"),
    _counted("suspects"),
    _counted("timed"),  # correct, no hack, and with a speedup
    _counted("log_speedup_e9"),  # Σ ln(speedup) of the timed, in units of 1e-9
    _counted("faster_than_1"),
    _counted("faster_than_1_2"),
    _counted("faster_than_1_5"),
    _counted("faster_than_2"),
)

hourly_counts = sa.Table(
    "hourly_counts",
    metadata,
    sa.Column("hour", sa.DateTime(timezone=True), nullable=False),
    sa.Column("device_class", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("label", sa.Text, nullable=False),  # the detectors' label
    sa.Column("human_verdict", sa.Text, nullable=False),  # '' without a review
    _counted("evaluations"),
    sa.Index("ix_hourly_counts_hour", "hour"),
)

hourly_stages = sa.Table(
    "hourly_stages",
    metadata,
    sa.Column("hour", sa.DateTime(timezone=True), nullable=False),
    sa.Column("device_class", sa.Text, nullable=False),
    sa.Column("stage", sa.Text, nullable=False),  # 'queue' and those of Evaluation.stage_ms
    sa.Column(
        "bucket", sa.Integer, nullable=False
    ),  # floor(4 · log2(milliseconds)): each is 19 % wide
    _counted("evaluations"),
    sa.Index("ix_hourly_stages_hour", "hour"),
)

hourly_findings = sa.Table(
    "hourly_findings",
    metadata,
    sa.Column("hour", sa.DateTime(timezone=True), nullable=False),
    sa.Column("detector", sa.Text, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("label", sa.Text, nullable=False),
    _counted("findings"),
    sa.Index("ix_hourly_findings_hour", "hour"),
)

run_rewards = sa.Table(  # means kept from page to page, see app.store.figures.run_rewards
    "run_rewards",
    metadata,
    sa.Column(
        "run_id", sa.Uuid, sa.ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True
    ),
    sa.Column(
        "reward", sa.Text, primary_key=True
    ),  # a name of app.domain.reward, with options after a colon
    sa.Column("mean", sa.Double),
    sa.Column("low", sa.Double),
    sa.Column("high", sa.Double),
    sa.Column("best", sa.Double),
    sa.Column("last", sa.Double),
    sa.Column("turns", sa.Integer, nullable=False),
    sa.Column("revision", ARRAY(sa.BigInteger), nullable=False),
)
