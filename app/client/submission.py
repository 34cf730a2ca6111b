"""ENQUEUE: a submission, and the same as a request to the service."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from app.domain.backend import DEFAULT_BACKEND
from app.domain.job import JobOptions
from app.domain.problem import Problem, adhoc_name
from app.domain.request import Request, RequestError
from app.domain.source import source_text
from app.domain.trajectory import Message, Turn


@dataclass(frozen=True, kw_only=True)
class Submission:
    """One candidate to be evaluated, as `submit` takes it."""

    reference: str | bytes | Problem
    candidate: str | bytes
    backend: str = DEFAULT_BACKEND
    gpu: str = "cpu"
    device: str | None = None
    priority: str = "normal"
    run: str | None = None
    """Name of the run for which it is asked: runs share the devices fairly."""
    fresh: bool = False
    workflow: str = Request.workflow
    """How the problem is given (app.workflows): `kernel_simple` has cases with
    answers in place of a `Model`.
    """
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of app.domain.job.JobOptions."""

    def request(self) -> Request:
        """The submission as a request to the service.  Raises RequestError."""
        return Request(
            problem=as_problem(self.reference),
            candidate=as_bytes(self.candidate),
            backend=self.backend,
            device_class=self.gpu,
            device=self.device,
            priority=self.priority,
            run=self.run,
            fresh=self.fresh,
            workflow=self.workflow,
            options=as_options(self.options),
        )


_PATH = re.compile(r"\s*[^\s#;=()]+\.py\s*")
"""Text that is a path and, as a program, an error: no name ends in `.py`."""
_OPTIONS = [each.name for each in fields(JobOptions)]


def as_submission(given: Submission | Mapping[str, Any]) -> Submission:
    """A submission from a Submission or a mapping with its fields.  Raises RequestError."""
    if isinstance(given, Submission):
        return given
    known = [each.name for each in fields(Submission)]
    if unknown := [str(name) for name in given if name not in known]:
        options = [name for name in unknown if name in _OPTIONS]
        hint = f" ({', '.join(options)} inside `options`)" if options else ""
        raise RequestError(
            f"submission: unknown {', '.join(unknown)}; expected some of {', '.join(known)}{hint}"
        )
    try:
        return Submission(**given)
    except TypeError as error:
        raise RequestError(f"submission: {error}") from error


def as_problem(reference: str | bytes | Problem, entry_point: str | None = None) -> Problem:
    """A problem of the source set `adhoc`, named by its hash, where only its source is given.

    `entry_point`: class name of a source; `Model` without it."""
    if isinstance(reference, Problem):
        return reference
    data, name = as_bytes(reference), entry_point or Problem.entry_point
    return Problem(name=adhoc_name(data, name), reference=data, entry_point=name)


def as_bytes(text: str | bytes) -> bytes:
    """Source as it is stored.  Raises RequestError, also for a path in its place."""
    if isinstance(text, str) and _PATH.fullmatch(text):
        raise RequestError(f"source: expected the content of a file, got its path {text!r}")
    if isinstance(text, str):
        return source_text.encode(text)
    if isinstance(text, bytes):
        return text
    raise RequestError(
        f"source: expected str or bytes, got {type(text).__name__}; pass the content of a file"
    )


def as_options(options: Mapping[str, Any]) -> JobOptions:
    """The options.  Raises RequestError."""
    if unknown := [str(name) for name in options if name not in _OPTIONS]:
        hint = " (each an argument of its own)" if unknown == ["options"] else ""
        raise RequestError(
            f"options: unknown {', '.join(unknown)}; expected some of {', '.join(_OPTIONS)}{hint}"
        )
    try:
        return JobOptions(**options)
    except (TypeError, ValueError) as error:
        raise RequestError(f"options: {error}") from error


def as_turn(given: Turn | Mapping[str, Any]) -> Turn:
    """A turn from a Turn or a mapping with its fields; its messages may be mappings.
    Raises RequestError.
    """
    if isinstance(given, Turn):
        return given
    try:
        messages = tuple(
            each if isinstance(each, Message) else Message(**each)
            for each in given.get("messages", ())
        )
        return Turn(**{"candidate": None, **given, "messages": messages})
    except (TypeError, AttributeError) as error:
        raise RequestError(f"turn: {error}") from error
