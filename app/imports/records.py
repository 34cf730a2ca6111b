"""ENQUEUE: imports of files with a record a line or a row: JSON lines, and the Parquet files of Dr. Kernel and
KernelBook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.parquet as pq

from app.domain import ids, source_text
from app.domain.problem import Problem
from app.imports import fields
from app.imports.base import (
    BadImportError,
    Imported,
    Listed,
    Progress,
    Sample,
    SampleOptions,
    SampleTurn,
    attempted,
    check,
    code_of,
    store_problems,
    store_samples,
    turns_of,
)
from app.store.database import Database

FIELDS = fields.PROBLEM | {"id", "backend", "messages", "response", "candidate"}


def jsonl(database: Database, path: Path, **options: Unpack[SampleOptions]) -> Imported:
    """Import a file of JSON objects, one sample a line, into the run `run` (by default the file's name).

    `reference` is the problem's source; then one of: `messages`, a dialogue that ends with an answer; `response`, an
    answer with its code in a block, and `messages` before it; `candidate`, code alone.  `reference` may also name a
    stored problem, by its id or as `<source set>/<name>`.  Further: `name`, `source_set`, `level`, `entry_point`,
    `licence`, `backend`, and `id`, which tells one sample from another; all other fields are kept as claims.  A bad
    line is left out and listed; BadImportError where all are bad, or the file cannot be read."""
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


def drkernel_coldstart(
    database: Database, path: Path, *, device_class: str = "cpu", progress: Progress | None = None
) -> Imported:
    """Import dialogues in the layout of `hkust-nlp/drkernel-coldstart-8k`: a trajectory each, a job for each answer."""
    check(device_class, None)
    return store_samples(
        database,
        attempted(_rows(path, _COLDSTART), lambda row: _dialogue(*row)),
        importer="drkernel_coldstart",
        named=f"drkernel-coldstart/{path.stem}",
        recorded={"licence": "MIT"},
        options={"device_class": device_class, "progress": progress},
    )


def drkernel_rl(database: Database, path: Path, *, progress: Progress | None = None) -> Imported:
    """Import problems in the layout of `hkust-nlp/drkernel-rl-data` (verl's)."""
    return store_problems(database, attempted(_rows(path, _RL), lambda row: _rl_problem(*row)), progress)


def kernelbook(database: Database, path: Path, *, progress: Progress | None = None) -> Imported:
    """Import the PyTorch programs of `GPUMODE/KernelBook` as problems, each with the licences of its repository."""
    return store_problems(database, attempted(_rows(path, _BOOK), lambda row: _book_problem(*row)), progress)


_RL = ("reward_model", "extra_info")
_BOOK = ("entry_point", "python_code", "licenses")
_COLDSTART = ("messages", "entry_point", "original_python_code", "uuid")


def _sample(line: bytes, where: str, backend: str | None, known: fields.KnownProblems) -> Sample:
    found = fields.object_of(line, where)
    return Sample(
        where=where,
        label=source_text.printable(str(found.get("id", ids.sha256(line.strip())[:32]))),
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


def _dialogue(row: dict[str, Any], where: str) -> Sample:
    if not isinstance(row["original_python_code"], str) or not isinstance(row["entry_point"], str):
        raise BadImportError(f"{where}: expected text in original_python_code and entry_point")
    problem = Problem(
        name=source_text.printable(f"{row.get('module_name') or row['entry_point']}_{row['uuid']}"),
        reference=source_text.encode(row["original_python_code"]),
        source_set="drkernel_coldstart",
        entry_point=row["entry_point"],
    )
    return Sample(
        where=where,
        label=str(row["uuid"]),
        problem=problem,
        licence=None,
        turns=turns_of(fields.messages_of(row["messages"], where), where),
        claims=fields.further(row, _COLDSTART),
    )


def _rl_problem(row: dict[str, Any], where: str) -> Listed:
    try:
        info, reference = row["extra_info"], row["reward_model"]["ground_truth"]
        told = next((info[key] for key in ("uuid", "problem_id") if info.get(key) not in (None, "")), None)
        name = ids.sha256(source_text.encode(reference))[:12] if told is None else told
        entry_point = info.get("entry_point") or "Model"
    except (TypeError, KeyError, AttributeError) as error:
        raise BadImportError(f"{where}: expected reward_model.ground_truth and extra_info") from error
    problem = Problem(
        name=source_text.printable(f"{info.get('module_name') or entry_point}_{name}"),
        reference=source_text.encode(reference),
        source_set="drkernel_rl",
        level=fields.level_of(info.get("level")),
        entry_point=entry_point,
    )
    prompt = row.get("prompt")
    return Listed(
        problem=problem,
        prompt=fields.messages_of(prompt, where) if isinstance(prompt, list) else (),
        claims=fields.further(info, ("uuid", "entry_point")),
    )


def _book_problem(row: dict[str, Any], where: str) -> Listed:
    if not isinstance(row["python_code"], str) or not isinstance(row["entry_point"], str):
        raise BadImportError(f"{where}: expected text in python_code and entry_point")
    reference = source_text.encode(row["python_code"])
    told = row.get("uuid")
    problem = Problem(
        name=source_text.printable(
            f"{row['entry_point']}_{ids.sha256(reference)[:12] if told in (None, '') else told}"
        ),
        reference=reference,
        source_set="kernelbook",
        entry_point=row["entry_point"],
    )
    licence = " OR ".join(sorted(row["licenses"] or [])) or None
    return Listed(
        problem=problem, licence=licence, claims=fields.further(row, (*_BOOK, "triton_code", "original_triton_code"))
    )


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[dict[str, Any], str]]:
    """(Row, where it stands), a batch in memory at a time."""
    try:
        with pq.ParquetFile(path) as file:
            missing = sorted(set(columns) - set(file.schema_arrow.names))
            if missing:
                raise BadImportError(f"{path}: expected the columns {', '.join(columns)}; {', '.join(missing)} missing")
            number = 0
            for batch in file.iter_batches(batch_size=200):
                for row in batch.to_pylist():
                    number += 1
                    yield row, f"{path}: row {number}"
    except (OSError, pa.ArrowException) as error:
        raise BadImportError(f"{path}: expected a Parquet file: {error}") from error
