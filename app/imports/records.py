"""ENQUEUE: imports of files with a record a line or a row: JSON lines, and the Parquet files of Dr. Kernel and
KernelBook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.domain import ids, source
from app.domain.problem import Problem
from app.domain.trajectory import Message
from app.imports.base import (
    Attempt,
    BadImportError,
    Imported,
    Progress,
    Sample,
    check,
    code_of,
    store_problems,
    store_samples,
    turns_of,
)
from app.store.session import Database

FIELDS = frozenset(
    {"reference", "name", "source_set", "level", "entry_point", "licence", "id", "backend"}
    | {"messages", "response", "candidate"}
)


def jsonl(
    database: Database,
    path: Path,
    *,
    run: str | None = None,
    model: str | None = None,
    device_class: str = "cpu",
    backend: str | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Import a file of JSON objects, one sample a line, into the run `run` (by default the file's name).

    `reference` is the problem's source; then one of: `messages`, a dialogue that ends with an answer; `response`, an
    answer with its code in a block, and `messages` before it; `candidate`, code alone.  Further: `name`, `source_set`,
    `level`, `entry_point`, `licence`, `backend`, and `id`, which tells one sample from another.  BadImportError names
    the line that is at fault; nothing of the file is stored then."""
    check(device_class, backend)
    name = run or path.stem
    return store_samples(
        database,
        _lines(path, backend),
        run=source.printable(name),
        model=model,
        importer="jsonl",
        recorded={},
        device_class=device_class,
        progress=progress,
    )


def drkernel_coldstart(
    database: Database, path: Path, *, device_class: str = "cpu", progress: Progress | None = None
) -> Imported:
    """Import dialogues in the layout of `hkust-nlp/drkernel-coldstart-8k`: a trajectory each, a job for each answer."""
    check(device_class, None)
    return store_samples(
        database,
        _dialogues(path),
        run=f"drkernel-coldstart/{source.printable(path.stem)}",
        model=None,
        importer="drkernel_coldstart",
        recorded={"licence": "MIT"},
        device_class=device_class,
        progress=progress,
    )


def drkernel_rl(database: Database, path: Path, *, progress: Progress | None = None) -> Imported:
    """Import problems in the layout of `hkust-nlp/drkernel-rl-data` (verl's)."""
    count = store_problems(database, (_rl_problem(row, where) for row, where in _rows(path, _RL)), progress)
    return Imported(problems=count, runs=0, samples=0, new_samples=0)


def kernelbook(database: Database, path: Path, *, progress: Progress | None = None) -> Imported:
    """Import the PyTorch programs of `GPUMODE/KernelBook` as problems, each with the licences of its repository."""
    count = store_problems(database, (_book_problem(row, where) for row, where in _rows(path, _BOOK)), progress)
    return Imported(problems=count, runs=0, samples=0, new_samples=0)


_RL = ("reward_model", "extra_info")
_BOOK = ("entry_point", "python_code", "licenses")
_COLDSTART = ("messages", "entry_point", "original_python_code", "uuid")


def _lines(path: Path, backend: str | None) -> Iterator[Sample]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _sample(line, f"{path}:{number}", backend)
    except OSError as error:
        raise BadImportError(f"{path}: cannot be read: {error.strerror}") from error


def _sample(line: bytes, where: str, backend: str | None) -> Sample:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadImportError(f"{where}: expected JSON: {error}") from error
    if not isinstance(fields, dict) or not isinstance(fields.get("reference"), str):
        raise BadImportError(f"{where}: expected an object with the source of a problem in `reference`")
    if unknown := sorted(fields.keys() - FIELDS):
        raise BadImportError(
            f"{where}: unknown field {', '.join(unknown)}; expected some of {', '.join(sorted(FIELDS))}"
        )
    level = fields.get("level")
    if level is not None and type(level) is not int:
        raise BadImportError(f"{where}: level: expected a number, got {level!r}")
    reference = source.encode(fields["reference"])
    problem = Problem(
        name=source.printable(str(fields.get("name") or ids.sha256(reference)[:12])),
        reference=reference,
        source_set=source.printable(str(fields.get("source_set", "imported"))),
        level=level,
        entry_point=str(fields.get("entry_point", "Model")),
    )
    licence = fields.get("licence")
    return Sample(
        where=where,
        label=source.printable(str(fields.get("id", ids.sha256(line.strip())[:32]))),
        problem=problem,
        licence=None if licence is None else source.printable(str(licence)),
        turns=_turns(fields, where),
        backend=backend or fields.get("backend"),
    )


def _turns(fields: dict[str, Any], where: str) -> tuple[Attempt, ...]:
    messages = _messages(fields.get("messages", []), where)
    candidate, response = fields.get("candidate"), fields.get("response")
    if not all(value is None or isinstance(value, str) for value in (candidate, response)):
        raise BadImportError(f"{where}: expected text in `candidate` and `response`")
    if candidate is None and response is None:
        return turns_of(messages, where)
    code = source.encode(candidate) if candidate is not None else code_of(response or "")
    answer = response if response is not None else f"```python\n{candidate}\n```"
    return (Attempt(messages=messages, response=answer, candidate=code),)


def _messages(found: Any, where: str) -> tuple[Message, ...]:
    try:
        messages = tuple(Message(role=one["role"], content=one["content"]) for one in found)
    except (TypeError, KeyError) as error:
        raise BadImportError(f"{where}: messages: expected a list of objects with role and content") from error
    if not all(isinstance(text, str) for one in messages for text in (one.role, one.content)):
        raise BadImportError(f"{where}: messages: expected text in role and content")
    return messages


def _dialogues(path: Path) -> Iterator[Sample]:
    for row, where in _rows(path, _COLDSTART):
        problem = Problem(
            name=source.printable(f"{row.get('module_name') or row['entry_point']}_{row['uuid']}"),
            reference=source.encode(row["original_python_code"]),
            source_set="drkernel_coldstart",
            entry_point=row["entry_point"],
        )
        turns = turns_of(_messages(row["messages"], where), where)
        yield Sample(where=where, label=str(row["uuid"]), problem=problem, licence=None, turns=turns)


def _rl_problem(row: dict[str, Any], where: str) -> tuple[Problem, str | None]:
    try:
        info, reference = row["extra_info"], row["reward_model"]["ground_truth"]
        name = info.get("uuid") or info.get("problem_id") or ids.sha256(source.encode(reference))[:12]
        entry_point = info.get("entry_point") or "Model"
    except (TypeError, KeyError, AttributeError) as error:
        raise BadImportError(f"{where}: expected reward_model.ground_truth and extra_info") from error
    problem = Problem(
        name=source.printable(f"{info.get('module_name') or entry_point}_{name}"),
        reference=source.encode(reference),
        source_set="drkernel_rl",
        entry_point=entry_point,
    )
    return problem, None


def _book_problem(row: dict[str, Any], where: str) -> tuple[Problem, str | None]:
    if not isinstance(row["python_code"], str) or not isinstance(row["entry_point"], str):
        raise BadImportError(f"{where}: expected text in python_code and entry_point")
    reference = source.encode(row["python_code"])
    problem = Problem(
        name=source.printable(f"{row['entry_point']}_{row.get('uuid') or ids.sha256(reference)[:12]}"),
        reference=reference,
        source_set="kernelbook",
        entry_point=row["entry_point"],
    )
    return problem, " OR ".join(sorted(row["licenses"] or [])) or None


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
