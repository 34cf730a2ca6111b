"""EVALUATE: one attempt to evaluate a job, with its measurements so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.domain.evaluation import FreshWeights, Timing
from app.domain.evidence import Ablation, KernelCode, NarrowProducts, Testimony
from app.domain.job import Job
from app.domain.kernel_profile import Profile
from workers.protocol import problem_spec
from workers.protocol.launch_records import Launch
from workers.referee.cancellation import Cancellation
from workers.referee.probes import aot_compile, call_profile
from workers.referee.resources import Resources
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.stage_timer import Stages
from workers.referee.timing import unpaired


@dataclass(kw_only=True)
class Progress:
    """An attempt.  It can end at any point; measurements that are set then become its result."""

    job: Job
    resources: Resources
    """Resources of the device."""
    seed: bytes
    """The master seed, 32 bytes."""
    stages: Stages
    cancellation: Cancellation
    spec: problem_spec.ProblemSpec | None = None
    """Specification of the problem's inputs and outputs."""
    runner: CallRunner | None = None
    timing: Timing | None = None
    unpaired_time: unpaired.UnpairedTime | None = None
    """Time of the candidate's calls, measured without a reference (problems by cases)."""
    profile: Profile | None = None
    launches: list[Launch] = field(default_factory=list)
    """Launches of the profiled call."""
    ablation: Ablation | None = None
    fresh_weights: FreshWeights | None = None
    narrow_products: NarrowProducts | None = None
    compiled: aot_compile.Compiled | None = None
    codes: tuple[KernelCode, ...] = ()
    testimony: Testimony = field(default_factory=Testimony)
    shares_memory: bool = False
    """True if other evaluations may use the device's memory meanwhile."""

    available_bytes: int | None = None
    """Bytes of device memory that were free, or this evaluation's, when it was admitted with the
    device to itself; None for one that shares the device.
    """

    def note_launch_bound(self) -> None:
        """Note in the timing whether calls wait for the host.  Applies on a GPU, once
        there are a timing and a profile.
        """
        on_gpu = not self.resources.device.precompiles
        if self.timing is not None and self.profile is not None and on_gpu:
            self.timing = call_profile.marked_if_launch_bound(self.timing, self.profile)
