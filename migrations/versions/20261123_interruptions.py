"""Deaths of our own processes: counted apart from attempts, waited out, and
remembered for the device.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "20261123i"
down_revision = "20261123e"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "jobs", sa.Column("interruptions", sa.Integer(), server_default="0", nullable=False)
    )
    op.add_column("jobs", sa.Column("not_before", sa.DateTime(timezone=True)))
    op.add_column(
        "devices", sa.Column("faults", ARRAY(sa.Text()), server_default="{}", nullable=False)
    )


def downgrade() -> None:
    op.drop_column("devices", "faults")
    op.drop_column("jobs", "not_before")
    op.drop_column("jobs", "interruptions")
