"""A job: a candidate to evaluate on a GPU class with options; queued once."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from uuid import UUID

from app.domain import policy as policies


class JobState(StrEnum):
    """Where a job is in its life."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    """An evaluation is stored."""
    FAILED = "failed"
    """Our fault (infrastructure); never scored."""
    CANCELLED = "cancelled"


TERMINAL = frozenset({JobState.FINISHED, JobState.FAILED, JobState.CANCELLED})


class Priority(StrEnum):
    """How urgent a job is among those for the same device."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


PROTOCOLS = ("assay", "kernelgym")


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """What the submitter may choose.  Part of the idempotency key."""

    baseline: str = "eager"
    """What the candidate is compared with: the reference as written (`eager`)."""
    deadline_s: float = 120.0
    """From claim to result, in seconds; past it the candidate's status is `timeout`."""
    call_timeout_s: float = 30.0
    """For one call of the candidate, and for loading and constructing it, in seconds."""
    timing_budget_s: float = 2.0
    """Time to spend on timed blocks, in seconds; 0 checks correctness alone."""
    memory_bytes: int = 4 << 30
    """Address space of the candidate's process on the CPU device."""
    correctness_calls: int = 5
    """Calls on the problem's own inputs, each with a seed of its own, before variants and timing."""
    variants: bool = True
    """Whether the candidate is also called on changed inputs: scaled, heavy-tailed, sparse …"""
    rtol: float | None = None
    """With `atol`: |x − R| ≤ atol + rtol·|R| against the fp64 reference decides, in place of our rule."""
    atol: float | None = None
    protocol: str = "assay"
    """`kernelgym`: besides, time it as KernelGYM does; the speedup stays ours (EventTiming)."""
    policy: str = policies.DEFAULT.name
    """What counts as a hack (app.domain.policy)."""

    def __post_init__(self) -> None:
        if (self.rtol is None) != (self.atol is None):
            raise ValueError(f"rtol, atol: expected both or neither, got {self.rtol!r} and {self.atol!r}")
        if self.baseline != "eager":
            raise ValueError(f"baseline: expected 'eager', got {self.baseline!r}")
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol: expected one of {', '.join(PROTOCOLS)}, got {self.protocol!r}")
        policies.find(self.policy)
        bounds = {
            "deadline_s": (1, 3600),
            "call_timeout_s": (0.1, 3600),
            "timing_budget_s": (0, 600),
            "memory_bytes": (256 << 20, 1 << 40),
            "correctness_calls": (1, 100),
            "rtol": (0, 1e6),
            "atol": (0, 1e6),
        }
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if value is None and name in ("rtol", "atol"):
                continue
            if not low <= value <= high:
                raise ValueError(f"{name}: expected {low} to {high}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything a worker needs in order to evaluate, and nothing secret."""

    job_id: UUID
    reference: bytes
    """Python source of the problem."""
    candidate: bytes
    """Python source of the candidate."""
    backend: str
    """`triton`, `cuda` or `torch`: what the candidate claims to be written in."""
    entry_point: str = "Model"
    device_class: str = "cpu"
    """Which kind of device: `cpu`, `h200` …"""
    options: JobOptions = field(default_factory=JobOptions)
    attempt: int = 0
    """Number of the claim under which it runs, from 1; results of an earlier claim are refused."""


def idempotency_key(
    *,
    problem_sha256: str,
    candidate: bytes,
    backend: str,
    entry_point: str,
    device_class: str,
    device: str | None,
    options: JobOptions,
    nonce: str = "",
) -> str:
    """Hash of content and options: the same submission twice is one job, unless the nonces differ.

    Options that are as they always were are left out, so that a new one changes no key of what is stored."""
    usual = asdict(JobOptions())
    chosen = {name: value for name, value in asdict(options).items() if value != usual[name]}
    fields = [
        problem_sha256,
        hashlib.sha256(candidate).hexdigest(),
        backend,
        entry_point,
        device_class,
        device,
        chosen,
        nonce,
    ]
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
