"""ENQUEUE: import of trajectories in ATIF (Harbor's agent trajectory interchange
format), versions 1.0 to 1.8.

A file is one document, or one document a line (`.jsonl`); a folder is searched for both.  The
problem stands in the document's `extra`: `reference` (its source, or the name of a stored problem),
`name`, `source_set`, `level`, `entry_point`, `licence`, as `assay collect atif` writes it, or is
the one that the caller names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Unpack

from app.domain import atif as documents
from app.domain import ids
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
)
from app.store.postgres.database import Database


def atif(
    database: Database, path: Path, *, problem: str | None = None, **options: Unpack[SampleOptions]
) -> Imported:
    """Import documents into one run: a trajectory each, a job for each answer with code.

    `problem`: the stored problem, by its id or as `<source set>/<name>`, of documents that do
    not say.  Metrics, token ids included, and further facts are kept as claims.  A bad
    document is left out and listed.
    """
    backend = options.get("backend")
    check(options.get("device_class", "cpu"), backend)
    known = fields.KnownProblems(database)
    return store_samples(
        database,
        attempted(_documents(path), lambda one: _sample(*one, problem, backend, known)),
        importer="atif",
        named=path.stem,
        recorded={},
        options=options,
    )


def _documents(path: Path) -> Iterator[tuple[bytes | None, str]]:
    """(Document, where it stands)."""
    paths = sorted([*path.rglob("*.json"), *path.rglob("*.jsonl")]) if path.is_dir() else [path]
    if not paths:
        raise BadImportError(f"{path}: expected files *.json or *.jsonl, found none")
    for each in paths:
        if each.suffix == ".jsonl":
            yield from fields.lines(each)
        else:
            try:
                yield each.read_bytes(), str(each)
            except OSError as error:
                raise BadImportError(f"{each}: cannot be read: {error.strerror}") from error


def _sample(
    text: bytes | None,
    where: str,
    problem: str | None,
    backend: str | None,
    known: fields.KnownProblems,
) -> Sample:
    try:
        found = documents.dialogue(fields.object_of(text, where))
    except documents.AtifError as error:
        raise BadImportError(f"{where}: {error}") from error
    told = fields.with_problem(dict(found.extra), problem)
    named = told.get("backend")
    return Sample(
        where=where,
        label=source_text.printable(
            found.trajectory_id or found.session_id or ids.sha256(text or b"")[:32]
        ),
        problem=fields.problem_of(told, where, known),
        licence=fields.licence_of(told),
        turns=tuple(
            SampleTurn(
                messages=one.messages, response=one.response, candidate=code_of(one.response)
            )
            for one in found.answers
        ),
        backend=backend or (named if isinstance(named, str) else None),
        claims=_claims(found, told),
    )


def _claims(found: documents.Dialogue, told: dict[str, Any]) -> dict[str, Any]:
    answers = [
        {"model": one.model, "timestamp": one.timestamp, "metrics": one.metrics, "extra": one.extra}
        for one in found.answers
    ]
    further = fields.further(told, fields.PROBLEM | {"backend"}) or {}
    return {**further, "session_id": found.session_id, "model": found.model, "answers": answers}
