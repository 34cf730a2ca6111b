"""Tables of jobs and of the devices that they run on."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from app.domain.job import JobState
from app.store.tables.base import created_at, id_column, metadata, one_of, reference, short_id_index

SHARE = "coalesce(run_id, '00000000-0000-0000-0000-000000000000')"
"""Key of the share of the devices that a job takes part in: its run; jobs without a
run are one share together.
"""

jobs = sa.Table(
    "jobs",
    metadata,
    id_column("job_id"),
    reference("problems.problem_id"),
    reference("candidates.candidate_id"),
    sa.Column("run_id", sa.Uuid, sa.ForeignKey("runs.run_id")),  # jobs of one run share the devices
    sa.Column("idempotency_key", sa.Text, nullable=False, unique=True),
    sa.Column("state", sa.Text, nullable=False, server_default=JobState.QUEUED),
    sa.Column("priority", sa.Text, nullable=False, server_default="normal"),
    sa.Column("device_class", sa.Text, nullable=False),
    sa.Column("device", sa.Text),  # '<node>.<index>' where pinned
    sa.Column("options", JSONB, nullable=False, server_default="{}"),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
    sa.Column(
        "interruptions", sa.Integer, nullable=False, server_default="0"
    ),  # attempts cut short by dead workers
    sa.Column(
        "sick_devices", sa.Integer, nullable=False, server_default="0"
    ),  # that were taken out while at it
    sa.Column("lease_until", sa.DateTime(timezone=True)),
    sa.Column("lease_owner", sa.Text),
    sa.Column(
        "not_before", sa.DateTime(timezone=True)
    ),  # earliest next claim of a job that runs again
    sa.Column("sent_at", sa.DateTime(timezone=True)),  # last time a message left for it
    sa.Column("cancel_requested", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column(
        "submissions", sa.Integer, nullable=False, server_default="1"
    ),  # that share it and were not withdrawn
    sa.Column("error_kind", sa.Text),  # infrastructure fault of a failed job
    sa.Column("error_message", sa.Text),
    created_at(),
    sa.Column("started_at", sa.DateTime(timezone=True)),
    sa.Column("finished_at", sa.DateTime(timezone=True)),
    one_of("state", JobState),
    one_of("priority", ("high", "normal", "low")),
    sa.CheckConstraint("(state = 'running') = (lease_until IS NOT NULL)", name="lease"),
    sa.CheckConstraint("(state = 'failed') = (error_kind IS NOT NULL)", name="error"),
    sa.Index(
        "ix_jobs_work",
        "state",
        "created_at",
        postgresql_where=sa.text("state IN ('queued', 'running')"),
    ),
    sa.Index("ix_jobs_failed", "finished_at", postgresql_where=sa.text("state = 'failed'")),
    sa.Index("ix_jobs_created_at_job_id", sa.text("created_at DESC"), sa.text("job_id DESC")),
    sa.Index(
        "ix_jobs_state_created_at", "state", sa.text("created_at DESC"), sa.text("job_id DESC")
    ),
    sa.Index(
        "ix_jobs_device_class_created_at",
        "device_class",
        sa.text("created_at DESC"),
        sa.text("job_id DESC"),
    ),
    sa.Index(
        "ix_jobs_run_id_created_at",
        "run_id",
        sa.text("created_at DESC"),
        sa.text("job_id DESC"),
        postgresql_where=sa.text("run_id IS NOT NULL"),
    ),
    sa.Index(  # the heads of the queues, which every claim looks at
        "ix_jobs_queue",
        "device_class",
        sa.text("coalesce(device, '')"),
        sa.text(SHARE),
        "priority",
        "created_at",
        "job_id",
        postgresql_where=sa.text("state = 'queued'"),
    ),
    sa.Index(
        "ix_jobs_share_started_at", sa.text(SHARE), "started_at"
    ),  # when a run was served last
    sa.Index("ix_jobs_error_kind", "error_kind", postgresql_where=sa.text("state = 'failed'")),
    short_id_index("jobs", "job_id"),
    postgresql_with={"fillfactor": 80},
)

devices = sa.Table(
    "devices",
    metadata,
    id_column("device_id"),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("device_class", sa.Text, nullable=False),
    sa.Column("device_index", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False, server_default="online"),
    sa.Column("fingerprint", JSONB, nullable=False, server_default="{}"),
    sa.Column("worker", sa.Text, nullable=False),
    sa.Column(
        "instance", sa.Text
    ),  # app.domain.worker_instance; none once its worker has stopped in order
    sa.Column("address", sa.Text),  # from which the worker reaches PostgreSQL
    sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column(
        "faults", ARRAY(sa.Text), nullable=False, server_default="{}"
    ),  # see app.store.queue.devices.note_fault
    sa.Column(
        "refused_messages", sa.BigInteger, nullable=False, server_default="0"
    ),  # since its worker began
    sa.Column("reason", sa.Text),  # why it is draining or quarantined
    sa.Column("changed_by", sa.Text),
    sa.Column("changed_at", sa.DateTime(timezone=True)),
    created_at(),
    sa.UniqueConstraint("node", "device_class", "device_index"),
    one_of("state", ("online", "offline", "draining", "quarantined")),
)
