"""ENQUEUE: parts of a record that several imports read: its problem, its messages,
its further fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import date, time
from pathlib import Path
from typing import Any

from app.domain import bounded_lines, ids
from app.domain.problem import Problem
from app.domain.source import source_text
from app.domain.trajectory import Message
from app.imports.base import BadImportError
from app.store.postgres.database import Database
from app.store.trajectory import imports

PROBLEM = frozenset({"reference", "name", "source_set", "level", "entry_point", "licence"})
"""Fields of a record that name its problem, or are its problem."""

_NAME = re.compile(r"[^\s/()]+/[^\s()]+|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
"""A reference that names a stored problem: no source is one word with a slash, or a UUID."""


class KnownProblems:
    """Problems of the database by name, each asked for once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._found: dict[str, Problem | None] = {}

    def named(self, name: str) -> Problem | None:
        """The problem of an id, or of `<source set>/<name>`."""
        if name not in self._found:
            with self._database.begin() as connection:
                self._found[name] = imports.named(connection, name)
        return self._found[name]


LONGEST_LINE = 1 << 28
"""Bytes of a record in JSON: a dialogue of many turns with the longest sources fits."""


def lines(path: Path) -> Iterator[tuple[bytes | None, str]]:
    """(Line, where it stands) of a file, blank ones left out; None for a line that is too long, of
    which `object_of` says so.  BadImportError where the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            for number, line in bounded_lines.lines(file, LONGEST_LINE):
                if line is None or line.strip():
                    yield line, f"{path}:{number}"
    except OSError as error:
        raise BadImportError(f"{path}: cannot be read: {error.strerror}") from error


def object_of(text: bytes | None, where: str) -> dict[str, Any]:
    """A JSON object.  BadImportError for anything else, and for None, a line that is too long."""
    if text is None:
        raise BadImportError(f"{where}: expected a line of at most {LONGEST_LINE} bytes")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadImportError(f"{where}: expected JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadImportError(f"{where}: expected an object, got {type(found).__name__}")
    return found


def with_problem(fields: dict[str, Any], problem: str | None) -> dict[str, Any]:
    """The record's fields; `problem`: the stored problem of a record that names none."""
    if problem is None or isinstance(fields.get("reference"), str):
        return fields
    return {**fields, "reference": problem}


def problem_of(fields: dict[str, Any], where: str, known: KnownProblems) -> Problem:
    """Problem of a record: its source is in the record, or the record names it; a null field
    is one that is left out.  BadImportError for neither.
    """
    text, level = fields.get("reference"), fields.get("level")
    if not isinstance(text, str):
        raise BadImportError(
            f"{where}: expected an object with the source of a problem in `reference`"
        )
    if level is not None and type(level) is not int:
        raise BadImportError(f"{where}: level: expected a number, got {level!r}")
    if _NAME.fullmatch(text):
        stored = known.named(text)
        if stored is None:
            raise BadImportError(
                f"{where}: reference: expected a source, or the id or `<source set>/<name>` of a"
                f" stored problem, got {text!r}, which names none"
            )
        return stored
    reference = source_text.encode(text)
    return Problem(
        name=source_text.printable(str(fields.get("name") or ids.sha256(reference)[:12])),
        reference=reference,
        source_set=source_text.printable(str(fields.get("source_set") or "imported")),
        level=level,
        entry_point=source_text.printable(str(fields.get("entry_point") or Problem.entry_point)),
    )


def label_of(fields: Mapping[str, Any], name: str, content: bytes) -> str:
    """Label of a sample: the field of that name, else the hash of its content."""
    told = fields.get(name)
    return source_text.printable(ids.sha256(content)[:32] if told in (None, "") else str(told))


def further(fields: dict[str, Any], read: Collection[str]) -> dict[str, Any] | None:
    """Fields that are not read, as claims; None where there are none."""
    return {
        name: _as_json(value) for name, value in sorted(fields.items()) if name not in read
    } or None


def _as_json(value: Any) -> Any:
    """The value; types that JSON lacks (times, bytes, decimals of a Parquet file) become text."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): _as_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(one) for one in value]
    if isinstance(value, bytes):
        return source_text.display(value)
    return value.isoformat() if isinstance(value, date | time) else str(value)


def messages_of(found: Any, where: str) -> tuple[Message, ...]:
    """Chat messages.  BadImportError for anything but a list of objects with role and content."""
    try:
        messages = tuple(Message(role=one["role"], content=one["content"]) for one in found)
    except (TypeError, KeyError) as error:
        raise BadImportError(
            f"{where}: messages: expected a list of objects with role and content"
        ) from error
    if not all(isinstance(text, str) for one in messages for text in (one.role, one.content)):
        raise BadImportError(f"{where}: messages: expected text in role and content")
    return messages


def level_of(told: object) -> int | None:
    """A level, as a number or as its digits in a text; None for anything else."""
    if isinstance(told, str) and told.isascii() and told.isdigit() and len(told) < 6:
        return int(told)
    return told if type(told) is int else None


def licence_of(fields: dict[str, Any]) -> str | None:
    """Licence of the problem; None where the record has none."""
    licence = fields.get("licence")
    return None if licence is None else source_text.printable(str(licence))
