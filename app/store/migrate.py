"""STORE: bring a database to the tables of this version."""

from __future__ import annotations

import importlib.util
import io

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory


def config(url: str) -> Config:
    """Alembic's configuration for one database; the scripts are those of the installed package `migrations`."""
    spec = importlib.util.find_spec("migrations")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        raise RuntimeError("migrations: expected the package beside `app`, found none; is kernel-assay installed?")
    settings = Config(stdout=io.StringIO())  # its remarks are for its own command line
    settings.set_main_option("script_location", folders[0].replace("%", "%%"))
    settings.set_main_option("path_separator", "os")
    settings.attributes["url"] = url
    return settings


def upgrade(url: str, revision: str = "head") -> None:
    """Run the migrations that the database has not seen, one process at a time."""
    command.upgrade(config(url), revision)


def downgrade(url: str, revision: str) -> None:
    """Take migrations back, and delete the data that only they could hold."""
    command.downgrade(config(url), revision)


def head() -> str:
    """The revision of this version's tables."""
    revision = ScriptDirectory.from_config(config("")).get_current_head()
    assert revision is not None
    return revision


def check(url: str) -> None:
    """Raise alembic.util.CommandError where the database differs from `app/store/tables`."""
    command.check(config(url))
