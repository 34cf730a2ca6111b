"""STORE: bring a database to the tables of this version."""

from __future__ import annotations

import io

from alembic import command
from alembic.config import Config
from alembic.script.revision import ResolutionError
from alembic.util import CommandError

from app.store.postgres import schema_revisions
from app.store.postgres.database import Database


class NewerDatabaseError(RuntimeError):
    """The database was migrated by a version of this program that knows more
    migrations than this one.
    """


def config(url: str) -> Config:
    """Alembic's configuration for one database; the scripts are those of the
    installed package `migrations`.
    """
    settings = Config(stdout=io.StringIO())  # its remarks are for its own command line
    settings.set_main_option("script_location", str(schema_revisions.folder()).replace("%", "%%"))
    settings.set_main_option("path_separator", "os")
    settings.attributes["url"] = url
    return settings


def upgrade(url: str, revision: str = "head") -> None:
    """Run the migrations that the database has not seen, one process at a time.

    Raises NewerDatabaseError, with nothing changed, DatabaseUnavailableError, and ValueError for a
    `revision` that does not exist.
    """
    try:
        with Database(url).translated():
            command.upgrade(config(url), revision)
    except CommandError as error:
        if not isinstance(error.__cause__, ResolutionError):
            raise
        unknown = error.__cause__.argument
        if unknown == revision:
            raise ValueError(f"expected a revision of the migrations, got {revision!r}") from error
        last = schema_revisions.head()
        raise NewerDatabaseError(
            f"the database's tables are of revision {unknown}, and the last that this version knows"
            f" is {last}: use the version that migrated it, or restore a backup made before (`assay"
            " db restore`)"
        ) from error


def downgrade(url: str, revision: str) -> None:
    """Take migrations back, and delete the data that only they could hold."""
    command.downgrade(config(url), revision)


def check(url: str) -> None:
    """Raise alembic.util.CommandError where the database differs from `app/store/tables`."""
    command.check(config(url))
