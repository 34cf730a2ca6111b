"""Runs migrations on one database, one process at a time, and never waits long for a
table that is in use.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context

from app.settings import Settings
from app.store.tables import metadata

ADVISORY_LOCK = 0x41535359
"""Held while migrating: 'ASSY'."""
LOCK_TIMEOUT = "10s"
"""A migration that waits longer for a table fails: waiting, it would block every
reader behind it.
"""


def _url() -> str:
    url = context.config.attributes.get("url") or Settings.from_env().database_url
    if not url:
        raise ValueError(
            "database: expected ASSAY_DATABASE_URL or a URL given by `assay db upgrade`, got"
            " neither"
        )
    return str(url)


def _online() -> None:
    engine = sa.create_engine(_url(), poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.text("SELECT pg_advisory_lock(:key)"), {"key": ADVISORY_LOCK})
        connection.execute(sa.text(f"SET lock_timeout = '{LOCK_TIMEOUT}'"))
        connection.commit()  # both outlive the transaction; the lock ends with the connection
        context.configure(
            connection=connection, target_metadata=metadata, transaction_per_migration=True
        )
        with context.begin_transaction():
            context.run_migrations()
    engine.dispose()


def _offline() -> None:
    context.configure(url=_url(), target_metadata=metadata, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    _offline()
else:
    _online()
