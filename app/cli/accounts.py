"""Helpers of `assay user` and `assay token`: the database alone, and secrets that
reach no history and no log.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from app import passwords
from app.cli import errors, services
from app.domain import choices
from app.settings import Settings
from app.store.postgres.database import Connection, Database
from app.store.user import users


@contextmanager
def database(settings: Settings) -> Iterator[Connection]:
    """A transaction in the database; no broker is needed."""
    if settings.database_url:
        yield from _transaction(settings.database_url)
    else:
        with services.opened(settings) as running:
            yield from _transaction(running.database_url or "")


def found(connection: Connection, name: str) -> users.Account:
    """The user of that name, or bad input."""
    account = users.find(connection, name)
    if account is None:
        known = choices.expected(each.name for each in users.listed(connection))
        raise LookupError(f"no user {name!r}; {known}")
    return account


def operator() -> dict[str, object]:
    """Operating system account that runs this command, for the audit's details; not
    a user of Assay.
    """
    return {"by": f"command line of {getpass.getuser()}"}


def password(name: str, file: Path | None, generate: bool) -> tuple[str, str | None]:
    """Password to store and password to show once: asked for twice, read from a file, or made up.

    Never an argument: arguments are in the process list and in histories."""
    if file is not None and generate:
        raise click.UsageError("expected one of --password-file and --generate, got both")
    if generate:
        made = passwords.generated()
        return passwords.hashed(made, name=name), made
    if file is not None:
        text = sys.stdin.read() if str(file) == "-" else errors.text_of(file)
        return passwords.hashed(text.removesuffix("\n"), name=name), None
    if not sys.stdin.isatty():
        raise click.UsageError(
            "expected a terminal to ask for the password on, --password-file or --generate"
        )
    return (
        passwords.hashed(
            click.prompt("Password", hide_input=True, confirmation_prompt=True), name=name
        ),
        None,
    )


def _transaction(url: str) -> Iterator[Connection]:
    opened = Database(url)
    try:
        with opened.begin() as connection:
            yield connection
    finally:
        opened.dispose()
