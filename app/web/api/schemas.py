"""BROWSE: request and answer types of the API: they decode, and the OpenAPI document
is made of them.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from typing import Annotated, Any, TypeAlias, get_type_hints
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from app import routing, workflows
from app.domain import reward
from app.domain.backend import BACKENDS, DEFAULT_BACKEND
from app.domain.job import JobOptions, Priority
from app.domain.problem import ADHOC, Problem, adhoc_name
from app.domain.request import MAX_SOURCE_BYTES, Request, RequestError
from app.domain.result import Result
from app.domain.source import source_text
from app.web.api import schema_constraints

MOST_ITEMS = 1_000
"""Items of a batch at most."""
MOST_TURNS = 200
"""Turns of a trajectory that one request stores."""
WORKFLOW = Request.workflow
"""Default workflow."""
LONGEST_WAIT_S = 60.0
"""Limit of a long poll: proxies often cut at this."""

Text: TypeAlias = Annotated[str, Meta(max_length=500, pattern=schema_constraints.NO_NUL)]
"""Content of a text column: no NUL, no lone surrogate."""
Name: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=500, pattern=schema_constraints.NO_NUL)
]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Backend: TypeAlias = Annotated[Text, Meta(extra_json_schema={"enum": list(BACKENDS)})]
DeviceClass: TypeAlias = Annotated[
    Text, Meta(extra_json_schema={"enum": list(routing.DEVICE_CLASSES)})
]
Device: TypeAlias = Annotated[str, Meta(extra_json_schema={"pattern": schema_constraints.PIN})]
Urgency: TypeAlias = Annotated[
    Text, Meta(extra_json_schema={"enum": [str(each) for each in Priority]})
]
Workflow: TypeAlias = Annotated[
    Text, Meta(extra_json_schema={"enum": sorted(workflows.known().keys() - {workflows.CHECK})})
]
RewardName: TypeAlias = Annotated[
    str, Meta(max_length=500, extra_json_schema={"pattern": reward.PATTERN})
]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=500)]


class Base64Source(Struct, forbid_unknown_fields=True):
    """Source that is no Unicode text, byte for byte."""

    base64: Annotated[str, Meta(extra_json_schema={"pattern": schema_constraints.BASE64})]


Source: TypeAlias = str | Base64Source
"""Python source, at most 16 MiB."""


class ProblemBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """A problem with its name: a reference in KernelBench form or, for
    `kernel_simple`, its cases.
    """

    reference: Source
    name: Name | None = None
    """By default made of its hash and its entry point."""
    source_set: Name = ADHOC
    level: Count | None = None
    entry_point: Annotated[
        str, Meta(min_length=1, max_length=100, pattern=schema_constraints.IDENTIFIER)
    ] = "Model"


SET_BY_WORKFLOWS = frozenset({"check"})
"""Options that a request cannot choose."""

Options = msgspec.defstruct(
    "EvaluationOptions",
    [
        (each.name, get_type_hints(JobOptions)[each.name] | None, None)  # None: as usual
        for each in dataclasses.fields(JobOptions)
        if each.name not in SET_BY_WORKFLOWS
    ],
    forbid_unknown_fields=True,
    kw_only=True,
    module=__name__,
)
"""Fields of app.domain.job.JobOptions."""


class HowBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The problem, device and options of an evaluation.  The problem is one of
    `reference`, `problem`, `problem_id`.
    """

    reference: Source | None = None
    problem: ProblemBody | None = None
    problem_id: UUID | None = None
    backend: Backend = DEFAULT_BACKEND
    gpu: DeviceClass = "cpu"
    """Device class."""
    device: Device | None = None
    """`<node>.<index>`: this device and no other."""
    priority: Urgency = "normal"
    run: Name | None = None
    """Name of the run for which it is asked: runs share the devices fairly."""
    workflow: Workflow = WORKFLOW
    """How the problem is given: `kernelbench`, a `Model` with its inputs;
    `kernel_simple`, get_cases() alone.
    """
    options: Options | None = None  # type: ignore[valid-type]  # made above


class EvaluationBody(HowBody, forbid_unknown_fields=True, kw_only=True):
    """A candidate to be evaluated."""

    candidate: Source
    fresh: bool = False
    """Evaluate again although the same was submitted before."""
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """Alternative to the header Idempotency-Key."""


class BatchBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """Candidates to be evaluated; an error in one says nothing about the others."""

    items: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=MOST_ITEMS)]


class RewardBody(EvaluationBody, forbid_unknown_fields=True, kw_only=True):
    """A candidate to be scored while the client waits."""

    reward: RewardName | None = None
    """A name of app.domain.reward, with options after a colon; by default the
    server's ASSAY_REWARD.
    """
    deadline_s: Annotated[float, Meta(ge=0, le=3600)] = 600.0


class Accepted(Struct, kw_only=True):
    """A job that will be, or was, evaluated."""

    job_id: UUID
    state: str
    known: bool
    """True if the same request was submitted before."""
    position: int | None
    """Jobs of the same device class that are before it, about; None where it does not wait."""
    eta_s: float | None
    """About how long until it is done, in seconds, at the pace of the last minutes; None where
    there was none, or no device takes jobs of its class now.
    """
    served: bool | None
    """Whether a device takes jobs of its class now: it waits for as long as none
    does.  None where it does not wait.
    """
    url: str
    """Where its result is."""


class ErrorPart(Struct, kw_only=True):
    """The error."""

    kind: str
    message: str
    details: dict[str, Any]


class ErrorAnswer(Struct, kw_only=True):
    """The answer to a request that failed."""

    error: ErrorPart


class BatchItem(Struct, kw_only=True):
    """Outcome of one item: a job or an error."""

    index: int
    accepted: Accepted | None
    error: ErrorPart | None


class BatchAnswer(Struct, kw_only=True):
    """Outcomes of a batch, in its order."""

    accepted: int
    refused: int
    items: list[BatchItem]


class JobsBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """Jobs to look at."""

    job_ids: Annotated[list[UUID], Meta(min_length=1, max_length=100)]


class WaitBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """Jobs to wait for."""

    job_ids: Annotated[list[UUID], Meta(min_length=1, max_length=MOST_ITEMS)]
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S)] = 0.0
    """Seconds, until one of them is over."""


class StateAnswer(Struct, kw_only=True):
    """Where a job is in its life."""

    job_id: UUID
    state: str


class WithdrawnAnswer(StateAnswer, kw_only=True):
    """The same, after one submission was withdrawn."""

    others: int
    """Submissions of the same content for which the job goes on; 0 where it ends, or has ended."""


class OverAnswer(Struct, kw_only=True):
    """Jobs that are over, and, where none is, jobs that no worker serves."""

    over: list[StateAnswer]
    unserved: dict[str, int]
    """Device class → jobs that wait for a device of it while none takes jobs."""


class ResultsAnswer(Struct, kw_only=True):
    """Results in the order in which they were asked for."""

    results: list[Result]


class RewardAnswer(Struct, kw_only=True):
    """A reward; None where the result says nothing about the candidate, which is not zero."""

    job_id: UUID
    reward: float | None
    result: Result


def problem(body: ProblemBody) -> Problem:
    """The problem as the service takes it.  Raises RequestError."""
    reference = as_bytes(body.reference, "reference")
    return Problem(
        name=body.name or adhoc_name(reference, body.entry_point),
        reference=reference,
        source_set=body.source_set,
        level=body.level,
        entry_point=body.entry_point,
    )


def options(given: Any) -> JobOptions:
    """The options that were given, the usual ones for the rest.  Raises RequestError."""
    chosen = (
        {}
        if given is None
        else {k: v for k, v in msgspec.structs.asdict(given).items() if v is not None}
    )
    try:
        return JobOptions(**chosen)
    except ValueError as error:
        raise RequestError(f"options: {error}") from error


def as_bytes(given: Source, name: str) -> bytes:
    """The source as it is stored.  Raises RequestError."""
    if isinstance(given, str):
        return source_text.encode(given)
    if len(given.base64) > 2 * MAX_SOURCE_BYTES:
        raise RequestError(f"{name}: expected at most {MAX_SOURCE_BYTES} bytes")
    try:
        return base64.b64decode(given.base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RequestError(
            f"{name}.base64: expected base64, got something that is none: {error}"
        ) from error
