"""An evaluation: measurements of one job.  Plain data, so that it can be judged
again without a device.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from app.domain.evidence import Ablation, CompiledKernel, NarrowProducts, Testimony
from app.domain.kernel_profile import Profile
from app.domain.other_timings import BaselineTiming, DeviceTiming, EventTiming
from app.domain.output_checks import FP64_RULE, Correctness, OutputCheck

PROTOCOL = "assay-4"
"""Names the measurement rules; changes whenever a stored number would mean something else."""


class Status(StrEnum):
    """Outcome for the candidate.  `invalid` blames no candidate: the problem or the device
    could not support a measurement.
    """

    PASSED = "passed"
    INCORRECT = "incorrect"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    CRASHED = "crashed"
    INVALID = "invalid"


@dataclass(frozen=True, kw_only=True)
class EvaluationError:
    """Reason why the status is not `passed`, for people."""

    kind: str
    """Short and stable: `no_entry_point`, `wrong_output`, `call_timeout` …"""
    message: str
    """One or two sentences: expected and actual."""
    log: str = ""
    """Traceback or compiler output, capped."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A run of calls between one *go* and one *done*, on the referee's clock."""

    group: int
    """ABBA group; −1 for hand-over blocks of no calls."""
    side: str
    """`reference` or `candidate`."""
    calls: int
    wall_us: float
    claimed_us: float | None
    """Duration claimed by the process itself, in microseconds: testimony."""
    sm_clock_mhz: int | None = None
    """Streaming-multiprocessor clock read when the block ended; None without a GPU."""
    temperature_c: int | None = None
    power_w: float | None = None
    settled_us: float | None = None
    """Duration of a tiny operation of the referee submitted at *done*: it waits for work still on
    the device.  None without a GPU.
    """
    before_us: float | None = None
    """Time until the device was idle, between writing a block's inputs and its
    clock, while the process was frozen.
    """


@dataclass(frozen=True, kw_only=True)
class Canary:
    """A kernel of known time, run by the referee alone on the device before and
    after the benchmark.
    """

    expected_us: float
    """Its time at the referee's start, on an idle device."""
    before_us: float
    after_us: float
    repeats: int
    """Measurements discarded: another process was on the device, or the interval was
    too wide to mean anything.
    """


FLOOR_HEADROOM = 2.0
"""Factor of the measured bandwidth in every `floor_us`, so that no honest kernel is accused of
beating the device.  The roofline is without it.
"""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The speedup and everything it was computed from."""

    reference_us: float
    """Time per call where nothing disturbs: the mean of the fastest third of the blocks."""
    candidate_us: float
    speedup: float
    """reference_us / candidate_us."""
    ci_low: float
    ci_high: float
    """95 % confidence interval of the speedup: the spread of the fastest third of each side's
    blocks, that of one process from another (workers/referee/timing/stopping.py), and on a GPU that
    of the reference's times in recent benchmarks (workers/referee/host/reference_history.py).
    """
    groups: int
    calls_per_side: int
    handover_us: float
    """Cost of a block of no calls in the reference's process; the most that is ever
    subtracted from a block.
    """
    candidate_handover_us: float
    """Hand-over in the candidate's process: testimony; subtracted from both sides if
    it is the shorter one.
    """
    claimed_us: float | None
    """Median time per call that the candidate's process claimed."""
    floor_us: float
    """Limit of detectors: bytes that must be moved, over FLOOR_HEADROOM times the
    device's measured bandwidth.
    """
    stop_reason: str
    """`precise`, `decided`, `budget` or `groups`."""
    blocks: tuple[Block, ...]
    launch_bound: bool = False
    """The device's own work is so short that mostly the host's launching was timed."""
    canary: Canary | None = None
    baselines: tuple[BaselineTiming, ...] = ()
    """Other baselines than the one that the speedup is over, where the job asked for
    some (JobOptions.baselines).
    """
    event_timing: EventTiming | None = None
    """With `protocol="kernelgym"`."""
    device: DeviceTiming | None = None
    """Where the job asked for it (JobOptions.device_time)."""
    reference_usual_us: float | None = None
    """The least that the reference took in earlier benchmarks on this device; None
    where too few are known.
    """


@dataclass(frozen=True, kw_only=True)
class FreshWeights:
    """One more call, of a model built anew, with other values for parameters and buffers that
    are all equal where the problem's model is constructed (a norm's ones and zeros), and for
    matrices that every step of an iteration uses: a candidate that leaves out those, or the
    first steps, is correct without them.  Weights on which the reference does much of its work
    without inputs are then changed in place as well.
    """

    names: tuple[str, ...]
    """Parameters that were drawn anew, on both sides alike: the candidate's model has them, too."""
    seed: str
    """Seed of the inputs, hexadecimal."""
    still_correct: bool | None
    """None if unknown, for the reason given."""
    outputs: tuple[OutputCheck, ...] = ()
    """Checks of the call that counts."""
    second_process: bool = False
    """True if that is a call of a second process, made because the answer of the
    first one's new model was wrong.
    """
    reason: str = ""
    """Reason why the result is unknown, or why the call ended without an answer."""
    kernels_matter: bool | None = None
    """Where its kernels did not matter (Ablation): whether the answer becomes wrong
    without them with these weights, as that of a kernel does that scales by ones.
    None where it was not tried.
    """


@dataclass(frozen=True, kw_only=True)
class CaseOutcome:
    """Candidate's outcome on one case of a problem by cases (workflow
    `kernel_simple`), in a process of its own.
    """

    index: int
    of: int
    """Cases of the problem."""
    name: str
    status: Status
    message: str = ""
    """Reason why it did not pass."""
    calls: int = 0
    failed_calls: int = 0
    tolerance: str = FP64_RULE
    """Rule of the comparison, as in Correctness: the case's own `rtol=…,atol=…`, the
    submitter's, or Assay's rule.
    """
    candidate_us: float | None = None
    """Median time per call by the referee's clock, in microseconds.  There is no reference that it
    could be compared with: the rest after a block counts in full, so that it is never too short.
    """
    candidate_us_low: float | None = None
    candidate_us_high: float | None = None
    """95 % confidence interval of it."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Device and software of the measurement."""

    device_class: str
    device_name: str
    device_id: str
    node: str
    python: str
    torch: str
    triton: str
    driver: str = ""
    cuda: str = ""
    bandwidth_gb_s: float | None = None
    """Peak bandwidth measured by the referee at its start."""
    numerics: str = ""
    """Arithmetic of libraries in fp32, on both sides alike: `matmul fp32,
    convolution TF32, rnn TF32`.
    """
    sandbox: tuple[str, ...] = ()
    """Layers in force around the candidate."""
    sandbox_missing: tuple[str, ...] = ()
    """Layers that this host does not allow."""


@dataclass(frozen=True, kw_only=True)
class ProblemMemory:
    """Memory that one call of the problem's reference takes, in bytes."""

    input_bytes: int
    output_bytes: int
    parameter_bytes: int
    call_bytes: int | None = None
    """Device memory used during a call, in bytes, with the outputs and without the inputs; None
    where it was not measured (CPU).
    """
    truth_bytes: int | None = None
    """Peak memory while the fp64 outputs are computed, with the fp64 inputs and outputs."""

    @property
    def reference_bytes(self) -> int:
        """Least memory that the reference alone needs: parameters, inputs, and the
        most that a call takes.
        """
        return (
            self.parameter_bytes + self.input_bytes + max(self.call_bytes or 0, self.output_bytes)
        )


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Measurements of one job.  `status` decides which parts may be present."""

    status: Status
    environment: Environment
    seed: str
    """Master seed of this evaluation, hexadecimal: every input follows from it."""
    error: EvaluationError | None = None
    correctness: Correctness | None = None
    timing: Timing | None = None
    profile: Profile | None = None
    ablation: Ablation | None = None
    fresh_weights: FreshWeights | None = None
    """None where the problem has no such parameters, the candidate has none of them,
    or nothing is at stake.
    """
    narrow_products: NarrowProducts | None = None
    """None where the problem has no such products, or nothing is at stake."""
    compiled_kernels: tuple[CompiledKernel, ...] = ()
    cases: tuple[CaseOutcome, ...] = ()
    """Cases tried, for a problem by cases: all up to the first that decides the evaluation."""
    testimony: Testimony = field(default_factory=Testimony)
    stage_ms: dict[str, float] = field(default_factory=dict)
    """Stage → milliseconds: reference, spawn, compile, correctness, timing, products, profile,
    ablation, precompile, weights, device_time, baselines, total.
    """
    memory: ProblemMemory | None = None
    """Memory that the problem takes; None where it ended before that was known."""
    protocol: str = PROTOCOL
    operators: str | None = None
    """Semantic key of the problem, as the reference's process recorded it; None
    where it could not.
    """

    def __post_init__(self) -> None:
        if (self.error is None) != (self.status is Status.PASSED):
            raise ValueError(
                f"status {self.status} with error {self.error}: exactly the passed have no error"
            )
        if self.timing is not None and self.status is not Status.PASSED:
            raise ValueError(f"status {self.status} cannot carry a timing")

    @property
    def valid(self) -> bool:
        """True if it says anything about the candidate."""
        return self.status is not Status.INVALID

    @property
    def correct(self) -> bool:
        """True if every verified call was right."""
        return self.status is Status.PASSED

    @property
    def candidate_us(self) -> float | None:
        """Time per call in microseconds: Timing.candidate_us, or for a problem by cases the
        median of its first case.
        """
        if self.timing is not None:
            return self.timing.candidate_us
        return self.cases[0].candidate_us if self.cases and self.correct else None

    @property
    def compiled(self) -> bool:
        """True if the candidate loaded (its kernels compile when first launched)."""
        return self.status not in {Status.COMPILE_ERROR, Status.INVALID}
