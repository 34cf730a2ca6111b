"""ENQUEUE: the Python interface: submit candidates, wait for their results, keep
whole trajectories.

    from app.client import Client

    with Client() as client:  # on a machine of the service
        job = client.submit(reference=reference, candidate=candidate, backend="triton", gpu="h200")
        print(job.wait(timeout_s=120)["speedup"])

    with Client(url="https://assay.example", token=token) as client:  # from anywhere
        submissions = [{"reference": reference, "candidate": each} for each in candidates]
        handles = client.submit_many(submissions)
        for handle, result in client.as_completed(handles, progress=True):
            print(handles.index(handle), result["status"], result["verdict"], result["speedup"])

Both have the same methods.  Results are dictionaries of the one shape of `app.domain.result`: the
same keys always.

A client over HTTP imports no package of the service (Celery, SQLAlchemy, Flask …):
msgspec and urllib3 are enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from app.client.collecting import prepared
from app.client.http_transport import NotAllowedError, Remote, ServiceError
from app.client.progress_bar import Bar
from app.client.session import Answer, KernelSession, Step, answer_all
from app.client.submission import Submission, as_options, as_problem, as_submission, as_turn
from app.client.transport import PATIENCE_S, ClosedError, Transport, UnknownJobError, as_id
from app.domain import freeform
from app.domain.backend import DEFAULT_BACKEND
from app.domain.job import JobState
from app.domain.problem import Problem
from app.domain.request import Request, RequestError, check_run_name
from app.domain.result import Result
from app.domain.rollout import Rollout
from app.domain.trajectory import Run, Trajectory, Turn
from app.settings import Settings, located

if TYPE_CHECKING:
    from celery import Celery

    from app.client.database_transport import Local
    from app.store.postgres.database import Database

__all__ = [
    "PATIENCE_S",
    "Answer",
    "Client",
    "ClosedError",
    "JobHandle",
    "KernelSession",
    "NotAllowedError",
    "RequestError",
    "Result",
    "ServiceError",
    "Step",
    "Submission",
    "UnknownJobError",
    "answer_all",
    "as_problem",
]


class JobHandle:
    """A job that was submitted."""

    def __init__(self, client: Client, job_id: UUID) -> None:
        self._client = client
        self.job_id = job_id

    def wait(self, timeout_s: float | None = None) -> Result:
        """The result, once the job is over.  Raises TimeoutError, after which it
        goes on running.
        """
        return self._client.wait([self.job_id], timeout_s=timeout_s)[0]

    def result(self) -> Result:
        """The result as it is now: `state` says whether there is more to come."""
        return self._client.results([self.job_id])[0]

    def cancel(self) -> JobState:
        """Withdraw this submission; the job's state after that.  A running job is cancelled within
        seconds; one that others submitted as well goes on.
        """
        return self._client.cancel(self.job_id)

    def __repr__(self) -> str:
        return f"JobHandle({self.job_id})"


Job = JobHandle | UUID | str
"""A job, as its handle or by its id."""


class Client:
    """The way into the service: over its database and its broker, or with `url` over its HTTP API.

    Without URLs in the settings it attaches to the embedded services of this machine, and says how
    to start them where none run (ServicesNotRunningError).

    A fault of the service raises (DatabaseUnavailableError in process, ServiceError over HTTP)
    after PATIENCE_S seconds of trying again; a job that failed by Assay's fault has the state
    `failed`, `valid` false and no score.
    """

    def __init__(
        self, settings: Settings | None = None, *, url: str | None = None, token: str | None = None
    ) -> None:
        if url is not None and settings is not None:
            raise ValueError("expected one of settings and url, got both")
        if url is None and token is not None:
            raise ValueError("token: expected a url with it, got none")
        self._opened: Transport = _in_process(settings) if url is None else Remote(url, token)
        self._closed = False

    @property
    def settings(self) -> Settings:
        """Settings of an in-process client.  Raises RuntimeError for an HTTP client."""
        return self._local.settings

    @property
    def database(self) -> Database:
        """Database of an in-process client.  Raises RuntimeError for an HTTP client."""
        return self._local.database

    @property
    def broker(self) -> Celery:
        """Broker of an in-process client.  Raises RuntimeError for an HTTP client."""
        return self._local.broker

    def close(self) -> None:
        """Close every connection.  Every later call of the client raises ClosedError."""
        self._closed = True
        self._opened.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def submit(
        self,
        *,
        reference: str | bytes | Problem,
        candidate: str | bytes,
        backend: str = DEFAULT_BACKEND,
        gpu: str = "cpu",
        device: str | None = None,
        priority: str = "normal",
        run: str | None = None,
        fresh: bool = False,
        workflow: str = Request.workflow,
        **options: Any,
    ) -> JobHandle:
        """Queue one candidate.  The same submission twice is one job, unless `fresh`.

        `device` pins it to '<node>.<index>' or to any device of '<node>'; `run` names the run that
        it is for; `workflow` says how the problem is given: `kernel_simple` takes a `reference`
        that defines get_cases() in place of a model; `options` are the fields of
        app.domain.job.JobOptions.  Raises RequestError.
        """
        submission = Submission(
            reference=reference,
            candidate=candidate,
            backend=backend,
            gpu=gpu,
            device=device,
            priority=priority,
            run=run,
            fresh=fresh,
            workflow=workflow,
            options=options,
        )
        return self.submit_many([submission])[0]

    def submit_many(self, submissions: Iterable[Submission | Mapping[str, Any]]) -> list[JobHandle]:
        """Queue many, some thousands a second: one handle each, in their order.
        Mappings have Submission's fields.
        """
        chosen = [as_submission(submission) for submission in submissions]
        return [JobHandle(self, job_id) for job_id in self._transport.submit(chosen)]

    def evaluate_many(
        self,
        submissions: Iterable[Submission | Mapping[str, Any]],
        *,
        progress: bool = False,
        timeout_s: float | None = None,
    ) -> list[Result]:
        """Queue many and wait for all: results in the order of the submissions.
        `progress` draws a bar on stderr.
        """
        handles = self.submit_many(submissions)
        return self.wait(
            [handle.job_id for handle in handles], timeout_s=timeout_s, progress=progress
        )

    def wait(
        self, jobs: Iterable[Job], *, timeout_s: float | None = None, progress: bool = False
    ) -> list[Result]:
        """Results in the order of the jobs, once all are over.

        Raises TimeoutError (the jobs go on running), UnknownJobError, and the transport's error if
        the service is away for more than PATIENCE_S seconds: a restart is waited out.
        """
        chosen = list(jobs)
        for _ in self._ended(chosen, timeout_s, shown=progress):
            pass
        return self.results(chosen)

    def as_completed(
        self,
        handles: Iterable[JobHandle],
        *,
        timeout_s: float | None = None,
        progress: bool = False,
    ) -> Iterator[tuple[JobHandle, Result]]:
        """Every handle with its result, as the jobs come to their end; handles of
        one job come together.

        `progress` draws a bar on stderr.  Raises the errors of `wait`; earlier results stay valid.
        """
        of_job: dict[UUID, list[JobHandle]] = {}
        for handle in handles:
            of_job.setdefault(handle.job_id, []).append(handle)
        for ended in self._ended(list(of_job), timeout_s, shown=progress):
            for job_id, result in zip(ended, self.results(ended), strict=True):
                yield from ((handle, result) for handle in of_job[job_id])

    def over(self, jobs: Iterable[Job], *, timeout_s: float | None = None) -> Iterator[UUID]:
        """Each of the jobs, once, as they come to their end.  Raises the errors of `wait`."""
        groups = self._transport.over([as_id(each) for each in jobs], timeout_s)
        return (job_id for group in groups for job_id in group)

    def results(self, jobs: Iterable[Job]) -> list[Result]:
        """Current results of the jobs, in their order.  Raises UnknownJobError."""
        return self._transport.results([as_id(each) for each in jobs])

    def cancel(self, job_id: UUID | str, *, for_all: bool = False) -> JobState:
        """Withdraw a submission, or `for_all` every one of the same content; the
        job's state after that.

        The last one cancels a queued job at once and asks a running one to stop; while
        there are others the job goes on.
        """
        return self._transport.cancel(as_id(job_id), for_all)

    def submit_rollouts(self, rollouts: Sequence[Rollout]) -> list[JobHandle]:
        """Store answers to be scored, and queue each of them: one handle each, in
        their order.  Raises RequestError.
        """
        return [JobHandle(self, job_id) for job_id in self._transport.submit_rollouts(rollouts)]

    def submit_trajectory(
        self,
        *,
        reference: str | bytes | Problem,
        turns: Sequence[Turn | Mapping[str, Any]],
        backend: str = DEFAULT_BACKEND,
        gpu: str = "cpu",
        priority: str = "normal",
        run: Run | None = None,
        label: str | None = None,
        workflow: str = Request.workflow,
        **options: Any,
    ) -> Trajectory:
        """Store a whole multi-turn trajectory and queue the candidate of every turn that has one.

        `workflow` and `options` are those of `submit`.  The trajectory comes back with the id of
        each turn's job. A turn may be a mapping with Turn's fields.  Raises RequestError, also
        where a run of that name says something else about itself.
        """
        if run is not None:
            check_run_name(run.name)
        request = Request(
            problem=as_problem(reference),
            candidate=None,
            backend=backend,
            device_class=gpu,
            priority=priority,
            workflow=workflow,
            options=as_options(options),
        )
        return self._transport.submit_trajectory(
            request, [as_turn(each) for each in turns], run, label
        )

    def add_run(self, run: Run) -> None:
        """Store a run if it is new.  Raises RequestError for an empty name, for settings that JSON
        cannot hold, and where one of that name says something else about itself.
        """
        check_run_name(run.name)
        freeform.check(run.settings, "run.settings")
        self._transport.add_run(run)

    def problem(self, problem_id: UUID | str) -> Problem:
        """The stored problem of that id, with its source.  Raises MissingError."""
        return self._transport.problem(as_id(problem_id, "problem"))

    def collect(self, spec: Mapping[str, Any], *, folder: Path | None = None) -> UUID:
        """Start a collection: models write kernels with feedback, as the
        specification says; its id.

        `spec` has the keys of app.domain.collection.spec.CollectionSpec; `folder` holds its
        `problems.files`.  The same again is the collection that there is.  Raises RequestError that
        names the key, before anything is spent.
        """
        return self._transport.collect(
            prepared(spec, folder or Path.cwd(), self._transport.add_problem)
        )

    def plan_collection(
        self, spec: Mapping[str, Any], *, folder: Path | None = None
    ) -> dict[str, Any]:
        """The size of a collection that is not started.  Raises the errors of `collect`."""
        return self._transport.plan_collection(
            prepared(spec, folder or Path.cwd(), self._transport.add_problem)
        )

    def collection(self, name: UUID | str, *, full: bool = False) -> dict[str, Any]:
        """The collection of that id or name in figures; `full`: also cost by endpoint and quality.

        Raises MissingError."""
        return self._transport.collection(str(name), full=full)

    def collections(self) -> list[dict[str, Any]]:
        """The newest collections in figures."""
        return self._transport.collections()

    def change_collection(
        self, name: UUID | str, action: str, *, by: str = "client"
    ) -> dict[str, Any]:
        """`pause`, `resume` or `stop` a collection; its figures after that.  Raises
        MissingError and ConflictError.
        """
        return self._transport.change_collection(str(name), action, by)

    def get_trajectory(self, trajectory_id: UUID | str) -> Trajectory:
        """The trajectory as it was submitted.  Raises LookupError."""
        return self._transport.get_trajectory(as_id(trajectory_id, "trajectory"))

    def _ended(
        self, jobs: Iterable[Job], timeout_s: float | None, *, shown: bool
    ) -> Iterator[list[UUID]]:
        """Jobs that ended together, with a bar of how many are over."""
        job_ids = [as_id(each) for each in jobs]
        with Bar(len(set(job_ids)), shown=shown) as bar:
            for ended in self._transport.over(job_ids, timeout_s):
                bar.advance(len(ended))
                yield ended

    @property
    def _transport(self) -> Transport:
        if self._closed:
            raise ClosedError("expected an open client, got one that was closed")
        return self._opened

    @property
    def _local(self) -> Local:
        if isinstance(self._transport, Remote):
            raise RuntimeError(
                "expected a client in process, got one over HTTP: it has no database and no broker"
            )
        return cast("Local", self._transport)


def _in_process(settings: Settings | None) -> Local:
    try:
        from app.client.database_transport import (
            Local,
        )  # a client over HTTP does without the packages that this needs
    except ModuleNotFoundError as error:
        raise ValueError(
            "url: expected Client(url=…, token=…), got none, and the service is not installed here"
            f" (no {error.name})"
        ) from error
    return Local(located(settings or Settings.from_env()))
