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
from app.domain import language, source
from app.domain.example import fence
from app.domain.problem import Problem
from app.domain.request import Request, RequestError
from app.domain.trajectory import Message, Turn
from app.imports.base import CHUNK, BadImportError, Imported, Progress, check
from app.store import imported, problems, trajectories
from app.store.session import Connection, Database


def kernelbench(
    database: Database,
    directory: Path,
    *,
    device_class: str = "cpu",
    backend: str | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Import a KernelBench checkout, or a folder that holds `level1` … `level4`, with or without `runs` beside them.

    Problems become the source set `kernelbench`.  Each sample of `runs/<run>/` becomes a trajectory of one turn in a
    run named after that folder, and a queued job for `device_class`, which a worker's sweep sends.  `backend` is the
    language of the samples; None asks each source.  The same folder again adds only new samples.

    Raises BadImportError before anything is stored of the run that is at fault, RunConflictError where a run of that
    name was made here, and ValueError for a device class or backend that there is not."""
    check(device_class, backend)
    files = _as_import(lambda: checkout.problem_files(directory))
    runs = [_Run.found(folder) for folder in sorted(directory.glob("runs/*")) if folder.is_dir()]
    samples = sum(len(run.kernels) for run in runs)
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, len(files) + samples)

    known: dict[tuple[int, int], Problem] = {}
    for (level, number), path in files.items():
        known[level, number] = _as_import(partial(checkout.problem, path, level))
        advance(1)
    with database.begin() as connection:
        problems.add(connection, list(known.values()))
    new = 0
    for run in runs:
        requests = _Requests(known=known, device_class=device_class, backend=backend)
        with database.begin() as connection:
            new += _store(connection, run, requests, advance)
    return Imported(problems=len(known), runs=len(runs), samples=samples, new_samples=new)


_T = TypeVar("_T")


def _as_import(read: Callable[[], _T]) -> _T:
    """Read, with a checkout's errors as an import's."""
    try:
        return read()
    except checkout.CheckoutError as error:
        raise BadImportError(str(error)) from error


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
    def found(cls, folder: Path) -> _Run:
        kernels = []
        for path in sorted(folder.glob("*_kernel.py")):
            level, number = _as_import(partial(checkout.sample_key, path))
            kernels.append(_Kernel(path=path, level=level, number=number))
        return cls(folder=folder, kernels=tuple(kernels))

    def recorded(self) -> dict[str, Any]:
        """Claims of the folder and its generation settings."""
        found: dict[str, Any] = {}
        claims, config = self.folder / "eval_results.json", self.folder / "generation_config.yaml"
        if claims.exists():
            found["eval_results"] = _claims(claims)
        if config.exists():
            found["generation_config"] = source.display(_read(config))
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
            raise BadImportError(f"{kernel.path}: there is no problem {kernel.number} of level {kernel.level}")
        data = _read(kernel.path)
        backend = self.backend or language.backend_for(data, [message.content for message in _prompt(kernel)])
        try:
            return Request(problem=problem, candidate=data, backend=backend, device_class=self.device_class)
        except RequestError as error:
            raise BadImportError(f"{kernel.path}: {error}") from error


def _store(connection: Connection, run: _Run, requests: _Requests, advance: Callable[[int], None]) -> int:
    """Store a run whole; the number of samples that were new."""
    recorded = run.recorded()
    model = _MODEL.search(recorded.get("generation_config", ""))
    run_id = imported.add_run(
        connection,
        name=source.printable(run.folder.name),
        model=model["model"] if model else None,
        importer=checkout.SOURCE_SET,
        recorded=recorded,
    )
    there = imported.labels(connection, run_id)
    labelled = ((kernel, imported.label_for(kernel.label, requests.device_class, there)) for kernel in run.kernels)
    fresh = [replace(kernel, stored_as=label) for kernel, label in labelled if label is not None]
    advance(len(run.kernels) - len(fresh))
    for start in range(0, len(fresh), CHUNK):
        chunk = fresh[start : start + CHUNK]
        _store_samples(connection, run_id, chunk, [requests.of(kernel) for kernel in chunk])
        advance(len(chunk))
    return len(fresh)


def _store_samples(connection: Connection, run_id: UUID, kernels: Sequence[_Kernel], wanted: Sequence[Request]) -> None:
    job_ids = enqueue.store(connection, wanted)
    problem_ids = problems.add(connection, [request.problem for request in wanted])
    for kernel, request, job_id, problem_id in zip(kernels, wanted, job_ids, problem_ids, strict=True):
        turn = Turn(
            messages=tuple(_prompt(kernel)),
            response=fence(source.display(request.candidate or b"")),  # KernelBench keeps the code alone
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
        yield Message(role="user", content=source.display(_read(kernel.prompt)))


def _claims(path: Path) -> dict[str, Any]:
    """Problem number → records of its samples: a list, or one object in older files."""
    try:
        claims = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise BadImportError(f"{path}: expected JSON: {error}") from error
    if not isinstance(claims, dict) or not all(isinstance(claim, list | dict) for claim in claims.values()):
        raise BadImportError(f"{path}: expected an object of problem number → results, got {str(claims)[:60]!r}")
    return claims


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadImportError(f"{path}: cannot be read: {error.strerror}") from error
