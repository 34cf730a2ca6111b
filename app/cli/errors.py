"""Exit codes, and from an exception to one line for people."""

from __future__ import annotations

import errno
import os
import select
import sys
from pathlib import Path
from typing import NoReturn

import click

STDOUT = 1
"""Descriptor of standard output."""

OK = 0
NO = 1
"""The answer is no: not passed, a hack, discrepancies found."""
USAGE = 2
"""Usage or bad input: the same command cannot succeed."""
INFRASTRUCTURE = 3
"""A server, a worker or this program failed: the same command may succeed later."""
UNREAD = 141
"""The reader of standard output has ended, as `| head` does: the code that shells give a program
which the signal SIGPIPE ends.
"""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a disk without room."""


class BadInputError(click.ClickException):
    """Input that cannot be used."""

    exit_code = USAGE


class InfrastructureError(click.ClickException):
    """Failure of a server, a worker or this program."""

    exit_code = INFRASTRUCTURE


def text_of(path: Path) -> str:
    """Content of a text file.  Raises BadInputError where it is no text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: expected text in UTF-8: {error}") from error


def is_unread(error: Exception) -> bool:
    """True if standard output is a pipe whose reader has ended; other broken pipes are faults."""
    if not isinstance(error, BrokenPipeError):
        return False
    watched = select.poll()
    watched.register(STDOUT, 0)
    return any(event & select.POLLERR for _, event in watched.poll(0))


def end_unread() -> NoReturn:
    """End without a message; buffered output goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)
    sys.exit(UNREAD)


def translate(error: Exception) -> click.ClickException:
    """The error as it is shown.  Refused input is a ValueError, a missing object a
    LookupError; infrastructure faults are RuntimeErrors and OSErrors; anything else is a
    mistake in this program and says so.
    """
    message = " ".join(
        [str(error).replace("\n\t", " ") or type(error).__name__, *getattr(error, "__notes__", [])]
    )
    if isinstance(error, OSError) and error.errno in FULL:
        message += " (`assay doctor` says which disk is full)"
    if isinstance(error, ValueError | LookupError) and not isinstance(error, KeyError | IndexError):
        return BadInputError(message)
    if isinstance(error, RuntimeError | OSError):
        return InfrastructureError(message)
    return InfrastructureError(
        f"unexpected {type(error).__name__}: {message} (`assay --debug …` shows where)"
    )
