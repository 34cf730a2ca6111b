"""A request: a submission before it is planned into jobs."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.domain.backend import BACKENDS, DEFAULT_BACKEND
from app.domain.job import JobOptions, Priority
from app.domain.problem import Problem
from app.domain.source import source_text

PRIORITIES = tuple(Priority)

MAX_SOURCE_BYTES = 16 << 20
"""Longest source that is stored at all; storable but long sources are judged by the evaluation."""


LONGEST_NAME = 500
"""Characters of the name of a run, problem, source set or class."""


class RequestError(ValueError):
    """A request that cannot be carried out; the message states expected and actual values."""


class ConflictError(RequestError):
    """A request that contradicts the one stored under the same name."""


class ServiceUnavailableError(RuntimeError):
    """The service, or a part of it, does not answer; the same call may work later."""


class MissingError(RequestError):
    """A request that names something that is not there: a stored problem, a device."""


def check_text(what: str, text: str) -> None:
    """Raise RequestError for text that PostgreSQL does not keep; `what` names it."""
    if source_text.unstorable(text) is not None:
        raise RequestError(
            f"{what}: expected text without NUL and lone surrogates, got {text!r:.200}"
        )


def check_name(what: str, name: str) -> None:
    """Raise RequestError for a name that cannot be stored."""
    check_text(what, name)
    if len(name) > LONGEST_NAME:
        raise RequestError(f"{what}: expected at most {LONGEST_NAME} characters, got {len(name)}")


def check_run_name(name: str) -> None:
    """Raise RequestError for a name that no run can have."""
    if not name:
        raise RequestError("run: expected a name, or none, got ''")
    check_name("run", name)


@dataclass(frozen=True, kw_only=True)
class Request:
    """One candidate to be evaluated on one problem."""

    problem: Problem
    candidate: bytes | None
    """Python source."""
    backend: str = DEFAULT_BACKEND
    device_class: str = "cpu"
    device: str | None = None
    """'<node>.<index>' to have it run on one device and no other, '<node>' on one of
    that host's.
    """
    run: str | None = None
    """Name of the run for which it is asked: runs share the devices fairly."""
    options: JobOptions = field(default_factory=JobOptions)
    priority: str = Priority.NORMAL
    fresh: bool = False
    """Evaluate again although the same submission was made before."""
    idempotency_key: str = ""
    """The submitter's own: with it the same submission is the same job, also where
    it is `fresh`.
    """
    of_turn: bool = False
    """A turn rests on the job: a known job of the same content is shared only where it is of the
    same problem.
    """
    workflow: str = "kernelbench"
    sent_as: str = ""
    """The sender's name of this submission: sent again under it, it is no further one among those
    that share a job.
    """

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise RequestError(
                f"unknown backend {self.backend!r}; expected one of {', '.join(BACKENDS)}"
            )
        if self.priority not in PRIORITIES:
            raise RequestError(
                f"unknown priority {self.priority!r}; expected one of {', '.join(PRIORITIES)}"
            )
        for name, data in (
            ("reference", self.problem.reference),
            ("candidate", self.candidate or b""),
        ):
            if len(data) > MAX_SOURCE_BYTES:
                raise RequestError(
                    f"{name}: expected at most {MAX_SOURCE_BYTES} bytes, got {len(data)}"
                )
        for name in ("name", "source_set", "entry_point"):
            check_name(f"problem {name}", getattr(self.problem, name))
        if self.run is not None:
            check_run_name(self.run)


@dataclass(frozen=True, kw_only=True)
class PlannedJob:
    """One job planned by a workflow: a candidate to evaluate against the request's problem."""

    candidate: bytes
    backend: str
    options: JobOptions
