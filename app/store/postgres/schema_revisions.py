"""STORE: revisions of the tables, that of this version and that of a database,
without Alembic's import.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import time
from functools import cache
from pathlib import Path

import sqlalchemy as sa

from app.store.postgres.database import Database, DatabaseUnavailableError

RETRY_S = 1.0
"""Pause between two attempts to reach PostgreSQL."""

_log = logging.getLogger(__name__)

_REVISION = re.compile(r'^revision = "(\w+)"', re.MULTILINE)
_BELOW = re.compile(r'^down_revision = "(\w+)"', re.MULTILINE)


class OtherVersionError(RuntimeError):
    """The database's tables are of another version of this program."""


def folder() -> Path:
    """The installed package `migrations`."""
    spec = importlib.util.find_spec("migrations")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        raise RuntimeError(
            "migrations: expected the package beside `app`, found none; is kernel-assay installed?"
        )
    return Path(folders[0])


@cache
def head() -> str:
    """The revision of this version's tables."""
    texts: list[str] = [path.read_text() for path in (folder() / "versions").glob("*.py")]
    below = {found for text in texts for found in _BELOW.findall(text)}
    last: set[str] = {found for text in texts for found in _REVISION.findall(text)} - below
    return last.pop()


def found(connection: sa.Connection) -> str | None:
    """The revision of the database's tables; None where it has none of Assay's."""
    if connection.execute(sa.select(sa.func.to_regclass("alembic_version"))).scalar_one() is None:
        return None
    return connection.execute(
        sa.text("SELECT version_num FROM alembic_version")
    ).scalar_one_or_none()


def require(connection: sa.Connection) -> None:
    """Raise OtherVersionError unless the database's tables are of this version."""
    there, here = found(connection), head()
    if there != here:
        raise OtherVersionError(
            f"expected tables of revision {here}, got {there or 'none'}: run `assay db upgrade`, or"
            " the version that made them"
        )


def await_own(url: str) -> None:
    """Wait for PostgreSQL, and return if its tables are of this version.  Raises
    OtherVersionError.
    """
    database = Database(url, connections=1)
    try:
        while True:
            try:
                with database.read() as connection:
                    return require(connection)
            except DatabaseUnavailableError as error:
                _log.warning("trying again in %.1f s: %s", RETRY_S, error)
                time.sleep(RETRY_S)
    finally:
        database.dispose()
