"""The process that serves a device, and the address that it comes from: two hosts of
one name are told apart.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261124wi"
down_revision = "20261124su"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("devices", sa.Column("instance", sa.Text()))
    op.add_column("devices", sa.Column("address", sa.Text()))


def downgrade() -> None:
    op.drop_column("devices", "address")
    op.drop_column("devices", "instance")
