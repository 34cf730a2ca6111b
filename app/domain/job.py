"""A job: a candidate to evaluate on a GPU class with options; queued once."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from uuid import UUID

from app.domain import policy as policies
from app.domain.backend import BACKENDS
from app.domain.verdict import Label


class JobState(StrEnum):
    """State in a job's life."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    """An evaluation is stored."""
    FAILED = "failed"
    """Our fault (infrastructure); never scored."""
    CANCELLED = "cancelled"


TERMINAL = frozenset({JobState.FINISHED, JobState.FAILED, JobState.CANCELLED})


class Priority(StrEnum):
    """Urgency of a job among those for the same device."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on the attempts of a job before it fails by Assay's fault."""

    attempts: int = 3
    """Attempts that ended by an infrastructure fault although every Assay process survived."""
    interruptions: int = 15
    """Attempts that were cut short by the death of an Assay process.  More than the former,
    because such deaths come in numbers (a host out of memory, a restart); not without end,
    because a candidate may cause them.
    """


PROTOCOLS = ("assay", "kernelgym")

BASELINES = ("compile", "compile-max-autotune")
"""Additional baselines: the reference by torch.compile, in default mode or with max-autotune."""

BASELINE_DEADLINE_S = 300.0
"""Deadline for measuring one additional baseline, in seconds, beside the candidate's own.
Compiling takes most of it, once for all candidates of a problem.
"""

BASELINE_CALL_TIMEOUT_S = 120.0
"""Limit of one call of an additional baseline, the first of which compiles, in seconds."""

BASELINE_GRACE_S = 60.0
"""Seconds a baseline may take beyond its deadline, for its reference and the last call."""

LAST_CALL_S = 120.0
"""Limit of one of the calls that follow the deadline, in seconds; call_timeout_s if it is less."""

LAST_CALLS = 6
"""Calls that follow the deadline: without kernels twice, and one to spare; in a process that was
given the source without them; and with weights drawn anew, of a new model and of a new process.
"""

LAST_S = 90.0
"""Seconds after the deadline beside those calls: for the driver's profiler, and for a process that
has to wait for its turn.
"""

PROFILES = ("launches", "full")

REWARD_BUDGET_S = 0.08
"""Default timing budget of trainers' rewards: four times the samples are worth more to
them than a narrow interval (H200, small Triton kernels: 229 evaluations a minute with
± 9 %; 38 to 48 with ± 3 % and 2 s).
"""


BOUNDS: dict[str, tuple[float, float]] = {
    "deadline_s": (1, 3600),
    "call_timeout_s": (0.1, 3600),
    "timing_budget_s": (0, 600),
    "memory_bytes": (256 << 20, 1 << 40),
    "correctness_calls": (1, 100),
    "rtol": (0, 1e6),
    "atol": (0, 1e6),
}
"""Least and greatest value of each numeric option."""
WHOLE = frozenset({"memory_bytes", "correctness_calls"})
"""Numeric options that are whole numbers."""


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Options of a submission.  Part of the idempotency key."""

    baseline: str = "eager"
    """Baseline of the speedup: the reference as written (`eager`)."""
    deadline_s: float = 120.0
    """For the candidate, in seconds; past it its status is `timeout`.  Waits for other evaluations,
    requests to the reference and comparisons of outputs are not in it.  The latter two may
    take as long themselves, then the status is `invalid`.
    """
    call_timeout_s: float = 30.0
    """For one call of the candidate, and for loading and constructing it, in seconds.  The first
    call on a GPU, which compiles, has three times as long.
    """
    timing_budget_s: float = 2.0
    """Time to spend on timed blocks, in seconds; 0 checks correctness alone."""
    memory_bytes: int = 4 << 30
    """Address space of the candidate's process on the CPU device."""
    correctness_calls: int = 5
    """Calls on the problem's own inputs, each with a seed of its own, before
    variants and timing.
    """
    variants: bool = True
    """True also calls the candidate on changed inputs: scaled, heavy-tailed, sparse …"""
    rtol: float | None = None
    """With `atol`: |x − R| ≤ atol + rtol·|R| against the fp64 reference decides, in
    place of Assay's rule.
    """
    atol: float | None = None
    protocol: str = "assay"
    """`kernelgym`: besides, time it as KernelGYM does; the credited speedup stays
    Assay's (EventTiming).
    """
    baselines: tuple[str, ...] = ()
    """Names among `BASELINES`: the speedup over each of them, too (BaselineTiming).
    In any order, kept in that one.
    """
    profile: str = "launches"
    """`launches`: the candidate's own Triton kernels, timed between events; on a GPU besides, by
    the driver's profiler, all that the device does for a candidate that claims kernels (see
    wants_profiler); `full`: for any candidate.
    """
    device_time: bool = False
    """True also measures the speedup by the device's own time, from CUDA graphs
    (DeviceTiming).  It comes after all that is credited and takes about as long as the
    timing budget, within the deadline.
    """
    policy: str = policies.DEFAULT.name
    """Policy of the verdict (app.domain.policy)."""
    cases: bool = False
    """The problem is a list of cases with their answers, `get_cases()`, and has no model that one
    could time.  The workflow `kernel_simple` says so.
    """
    check: bool = False
    """The candidate is the problem's own reference: the result is stored as a check of the problem,
    not as an attempt.  The workflow `problem_check` sets this, and nothing else may.
    """

    def __post_init__(self) -> None:
        if (self.rtol is None) != (self.atol is None):
            raise ValueError(
                f"rtol, atol: expected both or neither, got {self.rtol!r} and {self.atol!r}"
            )
        if self.baseline != "eager":
            raise ValueError(f"baseline: expected 'eager', got {self.baseline!r}")
        if self.protocol not in PROTOCOLS:
            raise ValueError(
                f"protocol: expected one of {', '.join(PROTOCOLS)}, got {self.protocol!r}"
            )
        if self.profile not in PROFILES:
            raise ValueError(
                f"profile: expected one of {', '.join(PROFILES)}, got {self.profile!r}"
            )
        if not isinstance(self.policy, str):
            raise ValueError(f"policy: expected text, got {self.policy!r}")
        policies.find(self.policy)
        self._order_baselines()
        if self.cases and (asked := self._asks_for_a_reference):
            raise ValueError(
                f"cases: a problem by cases has no reference that could be timed; got {asked}"
            )
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if value is None and name in ("rtol", "atol"):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{name}: expected a number, got {value!r}")
            if not low <= value <= high:
                raise ValueError(f"{name}: expected {low} to {high}, got {value!r}")
            if name in WHOLE and value != int(value):
                raise ValueError(f"{name}: expected a whole number, got {value!r}")
            # 60 and 60.0 are the same options, with the same key
            object.__setattr__(self, name, int(value) if name in WHOLE else float(value))

    @property
    def _asks_for_a_reference(self) -> str:
        """Text that lists the options that compare the candidate with a reference;
        empty if there are none.
        """
        if self.baselines:
            return f"baselines {', '.join(self.baselines)}"
        return (
            "device_time"
            if self.device_time
            else ""
            if self.protocol == "assay"
            else f"protocol {self.protocol!r}"
        )

    def _order_baselines(self) -> None:
        """The same names are the same options, whether they come as a list from JSON
        or in another order.
        """
        if isinstance(self.baselines, str) or not set(self.baselines) <= set(BASELINES):
            raise ValueError(
                f"baselines: expected some of {', '.join(BASELINES)}, got {self.baselines!r}"
            )
        object.__setattr__(
            self, "baselines", tuple(name for name in BASELINES if name in self.baselines)
        )

    @property
    def patience_s(self) -> float:
        """Seconds from claim to result at the most.  Checks after the deadline have limits of
        their own, and a baseline may have to wait for another evaluation's attempt at the same
        one, and then attempt it itself.
        """
        baselines_s = 2 * len(self.baselines) * (BASELINE_DEADLINE_S + BASELINE_GRACE_S)
        return self.deadline_s + LAST_CALLS * self.last_call_s + LAST_S + baselines_s

    @property
    def last_call_s(self) -> float:
        """For a call that follows the deadline."""
        return min(self.call_timeout_s, LAST_CALL_S)


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything a worker needs in order to evaluate, and nothing secret."""

    job_id: UUID
    reference: bytes
    """Python source of the problem."""
    candidate: bytes
    """Python source of the candidate."""
    backend: str
    """Language that the candidate claims to be written in: `triton`, `cuda` or `torch`."""
    entry_point: str = "Model"
    device_class: str = "cpu"
    """Kind of device: `cpu`, `h200` …"""
    options: JobOptions = field(default_factory=JobOptions)
    case: int = 0
    """Case to evaluate, for a problem by cases; a worker takes them one after another."""
    attempt: int = 0
    """Number of the claim under which it runs, from 1; results of an earlier claim are refused."""

    @property
    def wants_profiler(self) -> bool:
        """True if a GPU needs the driver's profiler: it alone sees whose kernels do the work,
        wherever they are launched, so that nothing which claims kernels, and nothing under a policy
        that asks for them, goes without.
        """
        return (
            self.options.profile == "full"
            or BACKENDS[self.backend].brings_kernels
            or self.policy_asks_for_kernels
        )

    @property
    def policy_asks_for_kernels(self) -> bool:
        """True if the work of a library weighs anything under the policy."""
        return (
            policies.find(self.options.policy).weigh("library_work", Label.CLEAN) is not Label.CLEAN
        )


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

    Options at their defaults are left out, so that a new one changes no stored key."""
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
