"""ENQUEUE: import of a KernelBench checkout: problems, and the samples of runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from app import enqueue
from app.domain import kernelbench as checkout
from app.domain.problem import Problem
from app.domain.prompt_templates import fence
from app.domain.request import Request, RequestError
from app.domain.source import language, source_text
from app.domain.trajectory import Message, Turn
from app.imports.base import CHUNK, MOST_SHOWN, BadImportError, Imported, Progress, check
from app.store.postgres.database import Connection, Database
from app.store.trajectory import imports, problems, trajectories


def kernelbench(
    database: Database,
    directory: Path,
    *,
    device_class: str = "cpu",
    backend: str | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Import a KernelBench checkout, or a folder that holds `level1` … `level4`, with
    or without `runs` beside them.

    Problems become the source set `kernelbench`.  Each sample of `runs/<run>/` becomes a trajectory
    of one turn in a run named after that folder, and a queued job for `device_class`, which a
    worker's sweep sends.  `backend` is the language of the samples; None asks each source.  The
    same folder again adds only new samples.

    A file that cannot be used is left out and listed.  Raises BadImportError where there are no
    problems, or every sample is bad, RunConflictError where a run of that name was made here, and
    ValueError for a device class or backend that there is not.
    """
    check(device_class, backend)
    files = _as_import(lambda: checkout.problem_files(directory))
    bad: list[str] = []
    runs = [
        _Run.found(folder, bad) for folder in sorted(directory.glob("runs/*")) if folder.is_dir()
    ]
    samples = sum(len(run.kernels) for run in runs)
    if bad and not samples:
        raise BadImportError("\n".join(bad[:MOST_SHOWN]))
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, len(files) + samples)

    known: dict[tuple[int, int], Problem] = {}
    for (level, number), path in files.items():
        found = _or_bad(partial(checkout.problem, path, level), bad)
        if found is not None:
            known[level, number] = found
        advance(1)
    if bad and not known:
        raise BadImportError("\n".join(bad[:MOST_SHOWN]))
    with database.begin() as connection:
        problems.add(connection, list(known.values()))
    requests = _Requests(known=known, device_class=device_class, backend=backend)
    good = new = 0
    for run in runs:
        with database.begin() as connection:
            taken, added = _store(connection, run, requests, advance, bad)
        good, new = good + taken, new + added
    if bad and not good and runs:
        raise BadImportError("\n".join(bad[:MOST_SHOWN]))
    return Imported(
        problems=len(known), runs=len(runs), samples=good, new_samples=new, bad=tuple(bad)
    )


_T = TypeVar("_T")


def _as_import(read: Callable[[], _T]) -> _T:
    """Read, with a checkout's errors as an import's."""
    try:
        return read()
    except checkout.CheckoutError as error:
        raise BadImportError(str(error)) from error


def _or_bad(read: Callable[[], _T], bad: list[str]) -> _T | None:
    """Read; None for a file at fault, which is noted."""
    try:
        return _as_import(read)
    except BadImportError as error:
        bad.append(str(error))
        return None


_MODEL = re.compile(r"^model_name:\s*['\"]?(?P<model>[^'\"\s]+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class _Kernel:
    """The file of one sample."""

    path: Path
    level: int
    number: int
    stored_as: str = ""
    """Label of its trajectory, where it is to be stored."""

    @property
    def label(self) -> str:
        return self.path.name.removesuffix("_kernel.py")

    @property
    def prompt(self) -> Path:
        """There if the generation ran with `log_prompt`."""
        return self.path.with_name(f"{self.label}_prompt.txt")


@dataclass(frozen=True, kw_only=True)
class _Run:
    """A folder of samples."""

    folder: Path
    kernels: tuple[_Kernel, ...]

    @classmethod
    def found(cls, folder: Path, bad: list[str]) -> _Run:
        kernels = []
        for path in sorted(folder.glob("*_kernel.py")):
            key = _or_bad(partial(checkout.sample_key, path), bad)
            if key is not None:
                kernels.append(_Kernel(path=path, level=key[0], number=key[1]))
        return cls(folder=folder, kernels=tuple(kernels))

    def recorded(self, bad: list[str]) -> dict[str, Any]:
        """Claims of the folder and its generation settings."""
        found: dict[str, Any] = {}
        claims, config = self.folder / "eval_results.json", self.folder / "generation_config.yaml"
        if claims.exists() and (read := _or_bad(partial(_claims, claims), bad)) is not None:
            found["eval_results"] = read
        if config.exists() and (text := _or_bad(partial(_read, config), bad)) is not None:
            found["generation_config"] = source_text.display(text)
        return found


@dataclass(frozen=True, kw_only=True)
class _Requests:
    """Options shared by all samples of an import."""

    known: Mapping[tuple[int, int], Problem]
    device_class: str
    backend: str | None

    def of(self, kernel: _Kernel) -> Request:
        problem = self.known.get((kernel.level, kernel.number))
        if problem is None:
            raise BadImportError(
                f"{kernel.path}: there is no problem {kernel.number} of level {kernel.level}"
            )
        data = _read(kernel.path)
        backend = self.backend or language.backend_for(
            data, [message.content for message in _prompt(kernel)]
        )
        try:
            return Request(
                problem=problem, candidate=data, backend=backend, device_class=self.device_class
            )
        except RequestError as error:
            raise BadImportError(f"{kernel.path}: {error}") from error


def _store(
    connection: Connection,
    run: _Run,
    requests: _Requests,
    advance: Callable[[int], None],
    bad: list[str],
) -> tuple[int, int]:
    """Store a run; the number of its samples that are good, and of those that are new."""
    recorded = run.recorded(bad)
    model = _MODEL.search(recorded.get("generation_config", ""))
    run_id = imports.add_run(
        connection,
        name=source_text.printable(run.folder.name),
        model=model["model"] if model else None,
        importer=checkout.SOURCE_SET,
        recorded=recorded,
    )
    there = imports.labels(connection, run_id)
    labelled = (
        (kernel, imports.label_for(kernel.label, requests.device_class, there))
        for kernel in run.kernels
    )
    fresh = [replace(kernel, stored_as=label) for kernel, label in labelled if label is not None]
    advance(len(run.kernels) - len(fresh))
    stored = 0
    for start in range(0, len(fresh), CHUNK):
        chunk = fresh[start : start + CHUNK]
        asked = [(kernel, _or_bad(partial(requests.of, kernel), bad)) for kernel in chunk]
        wanted = [(kernel, request) for kernel, request in asked if request is not None]
        _store_samples(connection, run_id, wanted)
        stored += len(wanted)
        advance(len(chunk))
    return len(run.kernels) - len(fresh) + stored, stored


def _store_samples(
    connection: Connection, run_id: UUID, wanted: Sequence[tuple[_Kernel, Request]]
) -> None:
    if not wanted:
        return
    requests = [request for _, request in wanted]
    job_ids = enqueue.store(connection, requests)
    problem_ids = problems.add(connection, [request.problem for request in requests])
    for (kernel, request), job_id, problem_id in zip(wanted, job_ids, problem_ids, strict=True):
        turn = Turn(
            messages=tuple(_prompt(kernel)),
            response=fence(
                source_text.display(request.candidate or b"")
            ),  # KernelBench keeps the code alone
            candidate=None,
            job_id=job_id,
        )
        trajectories.add(
            connection,
            problem_id=problem_id,
            backend=request.backend,
            turns=[turn],
            run_id=run_id,
            label=kernel.stored_as,
        )


def _prompt(kernel: _Kernel) -> Iterator[Message]:
    """The prompt as it was logged; none leaves the export to show a template."""
    if kernel.prompt.exists():
        yield Message(role="user", content=source_text.display(_read(kernel.prompt)))


def _claims(path: Path) -> dict[str, Any]:
    """Problem number → records of its samples: a list, or one object in older files."""
    try:
        claims = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise BadImportError(f"{path}: expected JSON: {error}") from error
    if not isinstance(claims, dict) or not all(
        isinstance(claim, list | dict) for claim in claims.values()
    ):
        raise BadImportError(
            f"{path}: expected an object of problem number → results, got {str(claims)[:60]!r}"
        )
    return claims


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadImportError(f"{path}: cannot be read: {error.strerror}") from error
