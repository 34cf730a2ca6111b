"""ENQUEUE: the Python interface: submit candidates, wait for their results, keep whole trajectories.

    from app.client import Client

    with Client() as client:
        job = client.submit(reference=reference, candidate=candidate, backend="triton", gpu="h200")
        print(job.wait(timeout_s=120)["speedup"])

Results are dictionaries of the one shape of `app.domain.result`: the same keys always."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Any, TypeAlias
from uuid import UUID

from celery import Celery
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from app import broker
from app.domain import ids, source
from app.domain.job import TERMINAL, JobOptions, JobState
from app.domain.problem import Problem
from app.domain.request import Request, RequestError
from app.domain.trajectory import Run, Trajectory, Turn
from app.enqueue import enqueue, enqueue_trajectory
from app.settings import Settings, located
from app.store import evaluations, jobs, trajectories
from app.store.notices import Notices
from app.store.session import Database, DatabaseUnavailableError

POLL_S = 2.0
"""Results are announced; whoever waits looks for themselves this often, in case an announcement was lost."""
PATIENCE_S = 60.0
"""Longest absence of PostgreSQL that waiting sits out."""
RETRY_S = 0.5
BATCH = 500
"""Results read at once: each may be some hundred kilobytes."""

Result: TypeAlias = dict[str, object]


class UnknownJobError(LookupError):
    """No job has that id."""


@dataclass(frozen=True, kw_only=True)
class Submission:
    """One candidate to be evaluated, as `submit` takes it."""

    reference: str | bytes | Problem
    candidate: str | bytes
    backend: str = "triton"
    gpu: str = "cpu"
    device: str | None = None
    priority: str = "normal"
    run: str | None = None
    """Name of the run that it is for; runs share the devices fairly."""
    fresh: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of app.domain.job.JobOptions."""

    def request(self) -> Request:
        """The same for the service.  Raises RequestError."""
        return Request(
            problem=as_problem(self.reference),
            candidate=_as_bytes(self.candidate),
            backend=self.backend,
            device_class=self.gpu,
            device=self.device,
            priority=self.priority,
            run=self.run,
            fresh=self.fresh,
            options=_options(self.options),
        )


class JobHandle:
    """A job that was submitted."""

    def __init__(self, client: Client, job_id: UUID) -> None:
        self._client = client
        self.job_id = job_id

    def wait(self, timeout_s: float | None = None) -> Result:
        """The result, once the job is over.  Raises TimeoutError, after which it goes on running."""
        return self._client.wait([self.job_id], timeout_s=timeout_s)[0]

    def result(self) -> Result:
        """The result as it is now: `state` says whether there is more to come."""
        return self._client.results([self.job_id])[0]

    def cancel(self) -> JobState:
        """Ask for an end; the state after that.  A running job is cancelled within seconds."""
        return self._client.cancel(self.job_id)

    def __repr__(self) -> str:
        return f"JobHandle({self.job_id})"


class Client:
    """The way into the service, over its database and its broker.

    Without URLs in the settings it attaches to the embedded services of this machine, and says how to start them
    where none run (ServicesNotRunningError)."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = located(settings or Settings.from_env())

    @cached_property
    def database(self) -> Database:
        """Opened when first used."""
        assert self.settings.database_url is not None
        return Database(self.settings.database_url)

    @cached_property
    def broker(self) -> Celery:
        """Opened when first used."""
        assert self.settings.broker_url is not None
        return broker.make_app(self.settings.broker_url)

    def close(self) -> None:
        """Close every connection."""
        if "database" in self.__dict__:
            self.database.dispose()
        if "broker" in self.__dict__:
            self.broker.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def submit(
        self,
        *,
        reference: str | bytes | Problem,
        candidate: str | bytes,
        backend: str = "triton",
        gpu: str = "cpu",
        device: str | None = None,
        priority: str = "normal",
        run: str | None = None,
        fresh: bool = False,
        **options: Any,
    ) -> JobHandle:
        """Queue one candidate.  The same submission twice is one job, unless `fresh`.

        `device` pins it to '<node>.<index>' or to any device of '<node>'; `run` names the run that it is for;
        `options` are the fields of app.domain.job.JobOptions.  Raises RequestError."""
        submission = Submission(
            reference=reference,
            candidate=candidate,
            backend=backend,
            gpu=gpu,
            device=device,
            priority=priority,
            run=run,
            fresh=fresh,
            options=options,
        )
        return self.submit_many([submission])[0]

    def submit_many(self, submissions: Iterable[Submission | Mapping[str, Any]]) -> list[JobHandle]:
        """Queue many, some thousands a second: one handle each, in their order.  Mappings have Submission's fields."""
        requests = [_as_submission(submission).request() for submission in submissions]
        return [JobHandle(self, job_id) for job_id in enqueue(self.database, self.broker, requests)]

    def evaluate_many(
        self,
        submissions: Iterable[Submission | Mapping[str, Any]],
        *,
        progress: bool = False,
        timeout_s: float | None = None,
    ) -> list[Result]:
        """Queue many and wait for all: results in the order of the submissions.  `progress` draws a bar on stderr."""
        handles = self.submit_many(submissions)
        return self.wait([handle.job_id for handle in handles], timeout_s=timeout_s, progress=progress)

    def wait(self, job_ids: Sequence[UUID], *, timeout_s: float | None = None, progress: bool = False) -> list[Result]:
        """Results in the order of the ids, once all are over.

        Raises TimeoutError (the jobs go on running), UnknownJobError, and DatabaseUnavailableError where PostgreSQL
        is away for more than `PATIENCE_S` seconds: a restart is waited out."""
        with _progress_bar(len(set(job_ids)), shown=progress) as advance:
            for _ in self.over(job_ids, timeout_s=timeout_s):
                advance()
        return self.results(job_ids)

    def over(self, job_ids: Sequence[UUID], *, timeout_s: float | None = None) -> Iterator[UUID]:
        """Each of the jobs, once, as they come to their end.  Raises what `wait` raises."""
        pending = set(job_ids)
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        look_at = reached_at = time.monotonic()
        with Notices(self.database) as notices:
            while pending:
                now = time.monotonic()
                try:
                    if now >= look_at:
                        notices.listen()  # first, so that nothing ends unheard between looking and listening
                        ended = self._ended(pending)
                        look_at = now + POLL_S
                    else:
                        ended = notices.wait(max(0.0, min(look_at, deadline) - now)) & pending
                    reached_at = now
                except DatabaseUnavailableError:
                    if now - reached_at > PATIENCE_S:
                        raise
                    time.sleep(RETRY_S)
                    look_at, ended = now, set()
                pending -= ended
                yield from ended
                if pending and now > deadline:
                    raise TimeoutError(f"{len(pending)} of {len(set(job_ids))} jobs were not over after {timeout_s} s")

    def results(self, job_ids: Sequence[UUID]) -> list[Result]:
        """What has become of the jobs so far, in the order of the ids.  Raises UnknownJobError."""
        found: dict[UUID, evaluations.Outcome] = {}
        for start in range(0, len(job_ids), BATCH):
            with self.database.begin() as connection:
                found |= evaluations.outcomes(connection, job_ids[start : start + BATCH])
        _check_known(job_ids, found)
        return [found[job_id].result(self._url(found[job_id]), self.settings.reward) for job_id in job_ids]

    def cancel(self, job_id: UUID) -> JobState:
        """Cancel a queued job at once and ask a running one to stop; the state after that."""
        with self.database.begin() as connection:
            state = jobs.cancel(connection, job_id)
        if state is None:
            raise UnknownJobError(f"no job {job_id}")
        return state

    def submit_trajectory(
        self,
        *,
        reference: str | bytes | Problem,
        turns: Sequence[Turn],
        backend: str = "triton",
        gpu: str = "cpu",
        priority: str = "normal",
        run: Run | None = None,
        label: str | None = None,
        **options: Any,
    ) -> Trajectory:
        """Store a whole multi-turn trajectory and queue the candidate of every turn that has one.

        The trajectory comes back with the id of each turn's job.  Raises RequestError, and RunConflictError where a
        run of that name says something else about itself."""
        request = Request(
            problem=as_problem(reference),
            candidate=None,
            backend=backend,
            device_class=gpu,
            priority=priority,
            options=_options(options),
        )
        trajectory_id = enqueue_trajectory(
            self.database, self.broker, request=request, turns=turns, run=run, label=label
        )
        return self.get_trajectory(trajectory_id)

    def get_trajectory(self, trajectory_id: UUID) -> Trajectory:
        """The trajectory as it was submitted.  Raises LookupError."""
        with self.database.begin() as connection:
            found = trajectories.get(connection, trajectory_id)
        if found is None:
            raise LookupError(f"no trajectory {trajectory_id}")
        return found

    def _ended(self, pending: set[UUID]) -> set[UUID]:
        with self.database.begin() as connection:
            states = jobs.states(connection, list(pending))
        _check_known(pending, states)
        return {job_id for job_id, state in states.items() if state in TERMINAL}

    def _url(self, outcome: evaluations.Outcome) -> str | None:
        """Where people look at it."""
        if outcome.evaluation_id is None:
            return None
        return f"{self.settings.web_url.rstrip('/')}/evaluations/{outcome.evaluation_id}"


def as_problem(reference: str | bytes | Problem) -> Problem:
    """A problem of the source set `adhoc`, named by its hash, where only its source is given."""
    if isinstance(reference, Problem):
        return reference
    data = _as_bytes(reference)
    return Problem(name=ids.sha256(data)[:12], reference=data)


def _as_bytes(text: str | bytes) -> bytes:
    if isinstance(text, str):
        return source.encode(text)
    if isinstance(text, bytes):
        return text
    raise RequestError(f"source: expected str or bytes, got {type(text).__name__}")


def _as_submission(submission: Submission | Mapping[str, Any]) -> Submission:
    if isinstance(submission, Submission):
        return submission
    try:
        return Submission(**submission)
    except TypeError as error:
        raise RequestError(f"submission: {error}") from error


def _options(options: Mapping[str, Any]) -> JobOptions:
    try:
        return JobOptions(**options)
    except (TypeError, ValueError) as error:
        raise RequestError(f"options: {error}") from error


def _check_known(wanted: Iterable[UUID], found: Mapping[UUID, object]) -> None:
    unknown = [job_id for job_id in wanted if job_id not in found]
    if unknown:
        raise UnknownJobError(f"no job {unknown[0]}" + (f" and {len(unknown) - 1} others" if unknown[1:] else ""))


@contextmanager
def _progress_bar(total: int, *, shown: bool) -> Iterator[Callable[[], None]]:
    columns = (TextColumn("evaluating"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not shown) as bar:
        task = bar.add_task("evaluating", total=total)
        yield lambda: bar.advance(task)
