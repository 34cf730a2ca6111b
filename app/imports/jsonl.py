"""ENQUEUE: import of JSON lines: one sample a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from app.domain.source import source_text
from app.imports import fields
from app.imports.base import (
    BadImportError,
    Imported,
    Sample,
    SampleOptions,
    SampleTurn,
    attempted,
    check,
    code_of,
    store_samples,
    turns_of,
)
from app.store.postgres.database import Database

FIELDS = fields.PROBLEM | {"id", "backend", "messages", "response", "candidate"}


def jsonl(database: Database, path: Path, **options: Unpack[SampleOptions]) -> Imported:
    """Import a file of JSON objects, one sample a line, into the run `run` (by
    default the file's name).

    `reference` is the problem's source; then one of: `messages`, a dialogue that ends with an
    answer; `response`, an answer with its code in a block, and `messages` before it; `candidate`,
    code alone.  `reference` may also name a stored problem, by its id or as `<source set>/<name>`.
    Further: `name`, `source_set`, `level`, `entry_point`, `licence`, `backend`, and `id`, which
    tells one sample from another; all other fields are kept as claims.  A bad line is left out and
    listed; BadImportError where all are bad, or the file cannot be read.
    """
    backend = options.get("backend")
    check(options.get("device_class", "cpu"), backend)
    known = fields.KnownProblems(database)
    return store_samples(
        database,
        attempted(fields.lines(path), lambda line: _sample(*line, backend, known)),
        importer="jsonl",
        named=path.stem,
        recorded={},
        options=options,
    )


def _sample(
    line: bytes | None, where: str, backend: str | None, known: fields.KnownProblems
) -> Sample:
    found = fields.object_of(line, where)
    return Sample(
        where=where,
        label=fields.label_of(found, "id", (line or b"").strip()),
        problem=fields.problem_of(found, where, known),
        licence=fields.licence_of(found),
        turns=_turns(found, where),
        backend=backend or found.get("backend"),
        claims=fields.further(found, FIELDS),
    )


def _turns(found: dict[str, Any], where: str) -> tuple[SampleTurn, ...]:
    messages = fields.messages_of(found.get("messages", []), where)
    candidate, response = found.get("candidate"), found.get("response")
    if not all(value is None or isinstance(value, str) for value in (candidate, response)):
        raise BadImportError(f"{where}: expected text in `candidate` and `response`")
    if candidate is None and response is None:
        return turns_of(messages, where)
    code = source_text.encode(candidate) if candidate is not None else code_of(response or "")
    answer = response if response is not None else f"```python\n{candidate}\n```"
    return (SampleTurn(messages=messages, response=answer, candidate=code),)
