"""ENQUEUE: interface of a client to the service, over any transport."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from app.client.submission import Submission
from app.domain.job import JobState
from app.domain.problem import Problem
from app.domain.request import Request, RequestError
from app.domain.result import Result
from app.domain.rollout import Rollout
from app.domain.trajectory import Run, Trajectory, Turn

PATIENCE_S = 60.0
"""Longest absence of the service that is sat out, in seconds: servers restart."""


class ClosedError(RuntimeError):
    """The client was closed."""


class UnknownJobError(LookupError):
    """No job has that id."""


class Transport(Protocol):
    """Access to the service, in process (`database_transport.Local`) or over HTTP
    (`http_transport.Remote`), with the same answers.
    """

    def submit(self, submissions: Sequence[Submission]) -> list[UUID]:
        """Jobs that answer the submissions, in their order.  Raises RequestError."""

    def submit_rollouts(self, rollouts: Sequence[Rollout]) -> list[UUID]:
        """Jobs of a trainer's rollouts, in their order.  Raises RequestError."""

    def over(self, job_ids: Sequence[UUID], timeout_s: float | None) -> Iterator[list[UUID]]:
        """Each of the jobs, once, as they come to their end: those that ended
        together are one list.

        Raises TimeoutError and UnknownJobError.
        """

    def results(self, job_ids: Sequence[UUID]) -> list[Result]:
        """Current results of the jobs, in the order of the ids.  Raises UnknownJobError."""

    def cancel(self, job_id: UUID, for_all: bool) -> JobState:
        """The state after withdrawing one submission, or all.  Raises UnknownJobError."""

    def submit_trajectory(
        self, request: Request, turns: Sequence[Turn], run: Run | None, label: str | None
    ) -> Trajectory:
        """The trajectory as stored.  `request` says how its candidates are
        evaluated, and has none itself.
        """

    def get_trajectory(self, trajectory_id: UUID) -> Trajectory:
        """The trajectory as it was submitted.  Raises LookupError."""

    def add_run(self, run: Run) -> None:
        """Store a run if it is new.  Raises RequestError where one of that name says
        something else about itself.
        """

    def problem(self, problem_id: UUID) -> Problem:
        """The stored problem of that id.  Raises MissingError."""

    def add_problem(self, problem: Problem) -> UUID:
        """Id of the problem, stored if it is new."""

    def collect(self, spec: Mapping[str, Any]) -> UUID:
        """Start a collection; its id.  Raises RequestError."""

    def plan_collection(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The size of a collection that is not started.  Raises RequestError."""

    def collection(self, name: str, *, full: bool) -> dict[str, Any]:
        """A collection in figures.  Raises MissingError."""

    def collections(self) -> list[dict[str, Any]]:
        """The newest collections in figures."""

    def change_collection(self, name: str, action: str, by: str) -> dict[str, Any]:
        """A collection in figures after `pause`, `resume` or `stop`.  Raises
        MissingError and ConflictError.
        """

    def close(self) -> None:
        """Close every connection."""


def check_known(wanted: Sequence[UUID] | set[UUID], found: object) -> None:
    """Raise UnknownJobError where the container `found` lacks one of the ids."""
    unknown = [job_id for job_id in wanted if job_id not in found]  # type: ignore[operator]
    if unknown:
        raise UnknownJobError(
            f"no job {unknown[0]}" + (f" and {len(unknown) - 1} others" if unknown[1:] else "")
        )


class HasJobId(Protocol):
    """A handle of a job."""

    job_id: UUID


def as_id(given: HasJobId | UUID | str, of: str = "job") -> UUID:
    """The id of a job, of its handle too, or of another object.  Raises RequestError for a text
    that is none.
    """
    named: Any = getattr(given, "job_id", given)
    try:
        return named if isinstance(named, UUID) else UUID(named)
    except (ValueError, AttributeError, TypeError) as error:
        raise RequestError(f"{of} id: expected a UUID, got {given!r}") from error
