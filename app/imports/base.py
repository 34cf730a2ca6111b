"""ENQUEUE: common part of all imports: samples become trajectories with jobs, once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypedDict, TypeVar
from uuid import UUID

from app import enqueue, routing
from app.domain.backend import BACKENDS
from app.domain.dataset import code_extraction
from app.domain.problem import Problem
from app.domain.request import Request, RequestError
from app.domain.source import language, source_text
from app.domain.trajectory import Message, Turn
from app.store.postgres.database import Connection, Database
from app.store.trajectory import imports, problems, trajectories

CHUNK = 500
"""Samples in memory at a time."""

MOST_SHOWN = 20
"""Bad records that an error lists."""

T = TypeVar("T")
U = TypeVar("U")

Progress = Callable[[int, int], None]
"""Called with files or lines done, and how many there are (0: not known)."""


class BadImportError(ValueError):
    """A file in the wrong form; the message names it, and the line or row."""


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Counts of an import: found, and new."""

    problems: int
    runs: int
    samples: int
    new_samples: int
    """Stored now; the others had been imported before."""
    bad: tuple[str, ...] = ()
    """Records that were left out: file, line and fault of each."""


@dataclass(frozen=True, kw_only=True)
class SampleTurn:
    """One turn of a sample."""

    messages: tuple[Message, ...]
    response: str
    candidate: bytes | None
    """The code of the answer; None where it has none."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A dialogue on one problem."""

    where: str
    """File and line, for errors."""
    label: str
    """Unique within its run: the same label is never stored twice."""
    problem: Problem
    licence: str | None
    """Licence of the problem."""
    turns: tuple[SampleTurn, ...]
    backend: str | None = None
    """None: each source is asked."""
    claims: dict[str, Any] | None = None
    """Further fields of the record, never counted as measured."""


Asked = tuple[Sample, list[Request | None]]
"""A sample with a request for each of its turns, None for one without code."""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A problem as a file of problems has it."""

    problem: Problem
    licence: str | None = None
    prompt: tuple[Message, ...] = ()
    """The messages that the file asks with."""
    claims: dict[str, Any] | None = None
    """Further fields of the record."""


@dataclass(frozen=True, kw_only=True)
class Bad:
    """A record that cannot be imported."""

    message: str
    """File, line and fault."""


class SampleOptions(TypedDict, total=False):
    """Options of every import of samples."""

    run: str | None
    """Name of the run; None for a name taken from the file or folder."""
    model: str | None
    """Model that wrote the samples."""
    device_class: str
    """Device class that evaluates the samples; `cpu` if left out."""
    backend: str | None
    """Backend of the samples; None detects it from each source."""
    progress: Progress | None


def check(device_class: str, backend: str | None) -> None:
    """Raise ValueError for an unknown device class or backend."""
    routing.queue_for(device_class)
    if backend is not None and backend not in BACKENDS:
        raise RequestError(f"unknown backend {backend!r}; expected one of {', '.join(BACKENDS)}")


def store_problems(
    database: Database, found: Iterable[Listed | Bad], progress: Progress | None
) -> Imported:
    """Store problems with their licences, prompts and claims; bad records are left
    out and listed.
    """
    done, listed, bad = 0, iter(found), list[str]()
    while chunk := list(islice(listed, CHUNK)):
        good = [one for one in chunk if isinstance(one, Listed)]
        bad += [one.message for one in chunk if isinstance(one, Bad)]
        if good:
            with database.begin() as connection:
                problem_ids = problems.add(connection, [one.problem for one in good])
                imports.set_licences(
                    connection, _licences(problem_ids, (one.licence for one in good))
                )
                said = {
                    key: (_prompt_json(one), one.claims)
                    for key, one in zip(problem_ids, good, strict=True)
                }
                imports.set_sources(connection, said)
        done += len(good)
        if progress is not None:
            progress(done + len(bad), 0)
    return Imported(problems=done, runs=0, samples=0, new_samples=0, bad=tuple(bad))


def store_samples(
    database: Database,
    samples: Iterable[Sample | Bad],
    *,
    importer: str,
    named: str,
    recorded: dict[str, Any],
    options: SampleOptions,
) -> Imported:
    """Store the samples of one run; bad records are left out and listed.

    `named`: name of the run if the options have none; `recorded`: facts stored with the run.
    Raises RunConflictError if a run of that name exists and was not imported, and BadImportError if
    every record is bad; nothing is stored then.
    """
    device_class, progress = options.get("device_class", "cpu"), options.get("progress")
    run, model = source_text.printable(options.get("run") or named), options.get("model")
    seen: set[str] = set()
    bad: list[str] = []
    licences: dict[UUID, str] = {}
    done = new = 0
    with database.begin() as connection:
        run_id = imports.add_run(
            connection, name=run, model=model, importer=importer, recorded=recorded
        )
        there = imports.labels(connection, run_id)
        listed = iter(samples)
        while chunk := list(islice(listed, CHUNK)):
            good = [one for one in chunk if isinstance(one, Sample)]
            bad += [one.message for one in chunk if isinstance(one, Bad)]
            labelled = ((one, imports.label_for(one.label, device_class, there)) for one in good)
            fresh = [replace(one, label=label) for one, label in labelled if label is not None]
            asked = list(attempted(fresh, lambda one: _asked(one, device_class)))
            refused = [one.message for one in asked if isinstance(one, Bad)]
            licences |= _store(
                connection, run_id, [one for one in asked if not isinstance(one, Bad)]
            )
            bad += refused
            seen.update(sample.problem.reference_sha256 for sample in good)
            done, new = done + len(good) - len(refused), new + len(fresh) - len(refused)
            if progress is not None:
                progress(done + len(bad), 0)
        if bad and not done:
            raise BadImportError("\n".join(bad[:MOST_SHOWN]))
        # jobs before problems, as a worker that stores a result locks them
        imports.set_licences(connection, licences)
    return Imported(problems=len(seen), runs=1, samples=done, new_samples=new, bad=tuple(bad))


def attempted(records: Iterable[T], read: Callable[[T], U]) -> Iterator[U | Bad]:
    """Results of `read` for each record; a BadImportError of one is that record's alone."""
    for record in records:
        try:
            yield read(record)
        except BadImportError as error:
            yield Bad(message=str(error))


def turns_of(messages: Sequence[Message], where: str) -> tuple[SampleTurn, ...]:
    """A dialogue as turns: messages between two answers belong to the second.

    BadImportError for one that ends with a question, or has two answers in a row."""
    turns: list[SampleTurn] = []
    waiting: list[Message] = []
    for message in messages:
        if message.role != "assistant":
            waiting.append(message)
            continue
        if not waiting:
            raise BadImportError(f"{where}: expected a message before each answer")
        turns.append(
            SampleTurn(
                messages=tuple(waiting),
                response=message.content,
                candidate=code_of(message.content),
            )
        )
        waiting = []
    if waiting or not turns:
        raise BadImportError(
            f"{where}: expected messages that end with an answer of the role 'assistant'"
        )
    return tuple(turns)


def code_of(response: str) -> bytes | None:
    """The last complete block of an answer, thoughts aside."""
    block, _ = code_extraction.last_block(response.rpartition(code_extraction.THOUGHT_END)[2])
    return (
        None if block is None or not block.strip() else source_text.encode(block.strip("\n") + "\n")
    )


def _store(connection: Connection, run_id: UUID, samples: Sequence[Asked]) -> dict[UUID, str]:
    """Store samples of the run; the licences of their problems, which remain to be stored."""
    if not samples:
        return {}
    problem_ids = problems.add(connection, [sample.problem for sample, _ in samples])
    wanted = [request for _, requests in samples for request in requests if request is not None]
    job_ids = iter(enqueue.store(connection, wanted) if wanted else [])
    for (sample, requests), problem_id in zip(samples, problem_ids, strict=True):
        trajectories.add(
            connection,
            problem_id=problem_id,
            backend=sample.backend or _backend(sample),
            turns=[
                Turn(
                    messages=turn.messages,
                    response=turn.response,
                    candidate=None,
                    job_id=None if request is None else next(job_ids),
                )
                for turn, request in zip(sample.turns, requests, strict=True)
            ],
            run_id=run_id,
            label=sample.label,
            claims=sample.claims,
        )
    return _licences(problem_ids, (sample.licence for sample, _ in samples))


def _asked(sample: Sample, device_class: str) -> Asked:
    """A sample with the request of each turn; None for a turn without code."""
    turns, named = sample.turns, sample.backend
    if named is not None and (not isinstance(named, str) or named not in BACKENDS):
        raise BadImportError(
            f"{sample.where}: backend: expected one of {', '.join(BACKENDS)}, got {named!r:.60}"
        )
    return sample, [
        None if turn.candidate is None else _request(sample, turn, device_class) for turn in turns
    ]


def _request(sample: Sample, turn: SampleTurn, device_class: str) -> Request:
    assert turn.candidate is not None
    prompts = [message.content for one in sample.turns for message in one.messages]
    backend = sample.backend or language.backend_for(turn.candidate, prompts)
    try:
        return Request(
            problem=sample.problem,
            candidate=turn.candidate,
            backend=backend,
            device_class=device_class,
        )
    except RequestError as error:
        raise BadImportError(f"{sample.where}: {error}") from error


def _backend(sample: Sample) -> str:
    codes = [turn.candidate for turn in sample.turns if turn.candidate is not None]
    prompts = [message.content for one in sample.turns for message in one.messages]
    return language.backend_for(codes[-1] if codes else b"", prompts)


def _prompt_json(one: Listed) -> str | None:
    messages = [{"role": message.role, "content": message.content} for message in one.prompt]
    return json.dumps(messages) if messages else None


def _licences(problem_ids: Sequence[UUID], licences: Iterable[str | None]) -> dict[UUID, str]:
    pairs: Iterator[tuple[UUID, str | None]] = zip(problem_ids, licences, strict=True)
    return {problem_id: licence for problem_id, licence in pairs if licence}
