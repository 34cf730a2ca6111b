"""ENQUEUE: common part of all imports: samples become trajectories with jobs, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from uuid import UUID

from app import enqueue, route
from app.domain import extraction, language, source
from app.domain.problem import Problem
from app.domain.request import BACKENDS, Request, RequestError
from app.domain.trajectory import Message, Turn
from app.store import imported, problems, trajectories
from app.store.session import Connection, Database

CHUNK = 500
"""Samples in memory at a time."""

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


@dataclass(frozen=True, kw_only=True)
class Attempt:
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
    turns: tuple[Attempt, ...]
    backend: str | None = None
    """None: each source is asked."""


def check(device_class: str, backend: str | None) -> None:
    """ValueError for a device class or backend that there is not."""
    route.queue_for(device_class)
    if backend is not None and backend not in BACKENDS:
        raise RequestError(f"unknown backend {backend!r}; expected one of {', '.join(BACKENDS)}")


def store_problems(database: Database, found: Iterable[tuple[Problem, str | None]], progress: Progress | None) -> int:
    """Store problems with their licences; how many there were."""
    done, listed = 0, iter(found)
    while chunk := list(islice(listed, CHUNK)):
        with database.begin() as connection:
            problem_ids = problems.add(connection, [problem for problem, _ in chunk])
            imported.set_licences(connection, _licences(problem_ids, (licence for _, licence in chunk)))
        done += len(chunk)
        if progress is not None:
            progress(done, 0)
    return done


def store_samples(
    database: Database,
    samples: Iterable[Sample],
    *,
    run: str,
    model: str | None,
    importer: str,
    recorded: dict[str, Any],
    device_class: str,
    progress: Progress | None,
) -> Imported:
    """Store the samples of one run, all or nothing.  RunConflictError where a run of that name was made here."""
    seen: set[str] = set()
    done = new = 0
    with database.begin() as connection:
        run_id = imported.add_run(connection, name=run, model=model, importer=importer, recorded=recorded)
        there = imported.labels(connection, run_id)
        listed = iter(samples)
        while chunk := list(islice(listed, CHUNK)):
            fresh = [sample for sample in chunk if sample.label not in there]
            _store(connection, run_id, fresh, device_class)
            seen.update(sample.problem.reference_sha256 for sample in chunk)
            done, new = done + len(chunk), new + len(fresh)
            if progress is not None:
                progress(done, 0)
    return Imported(problems=len(seen), runs=1, samples=done, new_samples=new)


def turns_of(messages: Sequence[Message], where: str) -> tuple[Attempt, ...]:
    """A dialogue as turns: what stands between two answers belongs to the second.

    BadImportError for one that ends with a question, or has two answers in a row."""
    turns: list[Attempt] = []
    waiting: list[Message] = []
    for message in messages:
        if message.role != "assistant":
            waiting.append(message)
            continue
        if not waiting:
            raise BadImportError(f"{where}: expected a message before each answer")
        turns.append(Attempt(messages=tuple(waiting), response=message.content, candidate=code_of(message.content)))
        waiting = []
    if waiting or not turns:
        raise BadImportError(f"{where}: expected messages that end with an answer of the role 'assistant'")
    return tuple(turns)


def code_of(response: str) -> bytes | None:
    """The last complete block of an answer, thoughts aside."""
    block, _ = extraction.last_block(response.rpartition(extraction.THOUGHT_END)[2])
    return None if block is None or not block.strip() else source.encode(block.strip("\n") + "\n")


def _store(connection: Connection, run_id: UUID, samples: Sequence[Sample], device_class: str) -> None:
    if not samples:
        return
    problem_ids = problems.add(connection, [sample.problem for sample in samples])
    imported.set_licences(connection, _licences(problem_ids, (sample.licence for sample in samples)))
    wanted = [(sample, turn) for sample in samples for turn in sample.turns if turn.candidate is not None]
    requests = [_request(sample, turn, device_class) for sample, turn in wanted]
    job_ids = enqueue.store(connection, requests) if requests else []
    job_of = {id(turn): job_id for (_, turn), job_id in zip(wanted, job_ids, strict=True)}
    for sample, problem_id in zip(samples, problem_ids, strict=True):
        trajectories.add(
            connection,
            problem_id=problem_id,
            backend=sample.backend or _backend(sample),
            turns=[
                Turn(messages=turn.messages, response=turn.response, candidate=None, job_id=job_of.get(id(turn)))
                for turn in sample.turns
            ],
            run_id=run_id,
            label=sample.label,
        )


def _request(sample: Sample, turn: Attempt, device_class: str) -> Request:
    assert turn.candidate is not None
    prompts = [message.content for one in sample.turns for message in one.messages]
    backend = sample.backend or language.backend_for(turn.candidate, prompts)
    try:
        return Request(problem=sample.problem, candidate=turn.candidate, backend=backend, device_class=device_class)
    except RequestError as error:
        raise BadImportError(f"{sample.where}: {error}") from error


def _backend(sample: Sample) -> str:
    codes = [turn.candidate for turn in sample.turns if turn.candidate is not None]
    prompts = [message.content for one in sample.turns for message in one.messages]
    return language.backend_for(codes[-1] if codes else b"", prompts)


def _licences(problem_ids: Sequence[UUID], licences: Iterable[str | None]) -> dict[UUID, str]:
    pairs: Iterator[tuple[UUID, str | None]] = zip(problem_ids, licences, strict=True)
    return {problem_id: licence for problem_id, licence in pairs if licence}
