"""Backups with PostgreSQL's own tools: one file in its custom format, from which
single tables can be restored, too.

A dump is a snapshot, taken while everything runs.  Redis needs none: the jobs of its messages are
in the rows, and the sweep sends them again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import psycopg
import sqlalchemy as sa

from app.embedded import binaries
from app.embedded.binaries import MissingBinaryError
from app.store.postgres.database import libpq_url


class TakenError(ValueError):
    """The file of a backup is there already, or others use the database that is to be replaced."""


class DumpError(RuntimeError):
    """pg_dump or pg_restore failed; the message is theirs."""


class DamagedDumpError(ValueError):
    """The file is no whole dump; the message is pg_restore's."""


def backup(url: str, file: Path) -> int:
    """Write all of the database to the file, whole or not at all; its size in bytes.

    Raises DumpError, MissingBinaryError, and TakenError: a backup is never overwritten."""
    if file.exists():
        raise TakenError(f"{file}: expected a new file, found one")
    unfinished = file.with_name(f"{file.name}.part")
    unfinished.touch(mode=0o600)  # it holds every source and every password's hash
    try:
        _run(url, "pg_dump", "--format=custom", "--no-owner", f"--file={unfinished}")
        unfinished.rename(file)
    except DumpError as error:
        raise DumpError(f"{file}: {error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return file.stat().st_size


def restore(url: str, file: Path) -> None:
    """Restore the database's state at the time the file was written, in one transaction.

    Raises DumpError, and DamagedDumpError where the file is at fault: on any error nothing has
    changed.  The caller makes sure that the database may be replaced; TakenError where other
    processes are connected to it.
    """
    if not file.exists():
        raise FileNotFoundError(f"{file}: expected a backup, found nothing")
    if others := _others(sa.make_url(url)):
        raise TakenError(
            f"expected no other connection to the database, found {others}: stop workers and web"
            " before"
        )
    try:
        _run(
            url,
            "pg_restore",
            "--clean",
            "--if-exists",
            "--no-owner",
            "--single-transaction",
            "--dbname=",
            str(file),
        )
    except DumpError:
        _check_whole(url, file)
        raise


def _check_whole(url: str, file: Path) -> None:
    """Read the whole file without a database.  Raises DamagedDumpError."""
    try:
        _run(url, "pg_restore", f"--file={os.devnull}", str(file))
    except DumpError as error:
        raise DamagedDumpError(f"{file}: expected a whole backup: {error}") from error


def _run(url: str, tool: str, *arguments: str) -> None:
    parsed = sa.make_url(url)
    command = [_tool(tool, _server_major(parsed)), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=_environment(parsed)
    )
    if done.returncode:
        raise DumpError(f"{tool} ended with {done.returncode}: {done.stderr.strip()}")


def _tool(name: str, server_major: int) -> str:
    """One that knows the server's version: older tools refuse newer servers."""
    for folder in binaries.postgres_folders():
        if os.access(folder / name, os.X_OK) and binaries.postgres_major(folder) >= server_major:
            return str(folder / name)
    if path := shutil.which(name):
        return path
    raise MissingBinaryError(
        f"expected {name} of PostgreSQL {server_major} or later, found none: {binaries.INSTALL}"
    )


def _others(url: sa.URL) -> int:
    """Connections of other processes to the database."""
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <>"
        " pg_backend_pid()"
    )
    with psycopg.connect(libpq_url(url)) as connection:
        row = connection.execute(query + " AND backend_type = 'client backend'").fetchone()
    return int(row[0]) if row else 0


def _server_major(url: sa.URL) -> int:
    with psycopg.connect(libpq_url(url)) as connection:
        return connection.info.server_version // 10_000


def _environment(url: sa.URL) -> dict[str, str]:
    """Connection parameters for libpq; the password is on no command line."""
    query = {name: value for name, value in url.query.items() if isinstance(value, str)}
    found = {
        "PGHOST": query.get("host", url.host),
        "PGPORT": url.port and str(url.port),
        "PGUSER": url.username,
        "PGPASSWORD": url.password,
        "PGDATABASE": url.database,
        "PGSSLMODE": query.get("sslmode"),
    }
    return {
        "PATH": os.environ.get("PATH", ""),
        **{name: str(value) for name, value in found.items() if value},
    }
