"""Names that clients of the KernelGYM protocol gave to their evaluations."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from app.store.tables.base import created_at, metadata, reference

kernelgym_tasks = sa.Table(
    "kernelgym_tasks",
    metadata,
    sa.Column(
        "owner", sa.Text, primary_key=True, server_default=""
    ),  # id of the user; "" where there are no users
    sa.Column("task_id", sa.Text, primary_key=True),  # the client's own name for it
    reference("jobs.job_id"),
    sa.Column("workflow", sa.Text, nullable=False),
    sa.Column(
        "asked", JSONB, nullable=False
    ),  # the fields of the request that its answer repeats; no source
    sa.Column(
        "withdrawn", sa.Boolean, nullable=False, server_default=sa.false()
    ),  # its submission, once; its job may go on for others
    created_at(),
)
