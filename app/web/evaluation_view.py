"""BROWSE: presentation of a measurement, for every page that shows one: parts are
computed when a page asks.
"""

from __future__ import annotations

from functools import cached_property

from app.domain.evaluation import Evaluation, Status
from app.domain.kernel_profile import KernelRow
from app.domain.output_checks import FP64_RULE
from app.web import correctness_table
from app.web.charts import block_plot, gpu_clocks, roofline
from app.web.charts.axis import BOTTOM

STAGES = (
    "reference",
    "room",
    "arena",
    "spawn",
    "compile",
    "correctness",
    "timing",
    "events",
    "products",
    "profile",
    "ablation",
    "precompile",
    "weights",
    "device_time",
    "nonfinite",
)
"""Stages of an evaluation, in the order in which they happen: JSONB does not keep it."""
STAGE_NAMES = {
    "room": "memory reservation",
    "arena": "buffer setup",
    "events": "CUDA-event timing",
    "ablation": "ablation of kernels",
    "precompile": "ahead-of-time compilation",
    "products": "narrow products",
    "weights": "changed weights",
    "nonfinite": "NaN and infinity check",
}
"""Stage → its name on pages, where it is another."""
_PLACES = {name: place for place, name in enumerate((*STAGES, "baselines", "total"))}

TOLERANCE = (
    "A call is right when its output is as close to an fp64 reference as the reference itself is in"
    " its own precision, times a margin: a fixed tolerance passes wrong kernels where values are"
    " small and fails right ones where sums are long. Both errors have to stay under their limits:"
    " relative (‖x − R‖ / ‖R‖), and largest over root mean square."
)
"""Reasons for the limits, in words."""


class Measured:
    """The parts of one evaluation's pages."""

    plot_size = (block_plot.HEIGHT, BOTTOM)
    strip_size = (gpu_clocks.HEIGHT, gpu_clocks.BOTTOM)
    roof_size = (roofline.HEIGHT, BOTTOM)

    def __init__(self, evaluation: Evaluation, baseline: str) -> None:
        self.evaluation = evaluation
        self.baseline = baseline

    @cached_property
    def plot(self) -> block_plot.BlockPlot | None:
        """Time per call of every block."""
        return block_plot.plot(self.evaluation.timing) if self.evaluation.timing else None

    @cached_property
    def strip(self) -> gpu_clocks.Strip | None:
        """Clocks under it."""
        return gpu_clocks.strip(self.evaluation.timing) if self.evaluation.timing else None

    @cached_property
    def roofline(self) -> roofline.Roofline | None:
        """Attained against attainable."""
        return roofline.roofline(self.evaluation)

    @cached_property
    def lines(self) -> list[correctness_table.CheckLine]:
        """Verified calls, output by output."""
        return (
            correctness_table.lines(self.evaluation.correctness)
            if self.evaluation.correctness
            else []
        )

    @cached_property
    def worst(self) -> list[correctness_table.CheckLine]:
        """Wrong outputs with their worst element."""
        return (
            correctness_table.worst(self.evaluation.correctness)
            if self.evaluation.correctness
            else []
        )

    @cached_property
    def grid(self) -> list[correctness_table.GridRow]:
        """Verified calls, by variant of their inputs."""
        return (
            correctness_table.grid(self.evaluation.correctness)
            if self.evaluation.correctness
            else []
        )

    @property
    def tolerance(self) -> str:
        """The rule that decided, and its reason."""
        asked = self.evaluation.correctness.tolerance if self.evaluation.correctness else FP64_RULE
        if self.evaluation.cases and asked != FP64_RULE:
            return (
                f"Each case has a tolerance of its own ({asked}); fp64 is Assay's rule, for those"
                " that ask for none."
            )
        return (
            TOLERANCE
            if asked == FP64_RULE
            else f"The submitter asked for {asked} instead of Assay's rule."
        )

    @property
    def cases_of(self) -> int:
        """Cases of the problem; 0 where it is given otherwise."""
        return self.evaluation.cases[0].of if self.evaluation.cases else 0

    @property
    def cases_passed(self) -> int:
        """Number of cases passed."""
        return sum(case.status is Status.PASSED for case in self.evaluation.cases)

    @property
    def cases_untried(self) -> int:
        """Number of cases not tried."""
        return self.cases_of - len(self.evaluation.cases)

    @property
    def why_untried(self) -> str:
        """Reason for untried cases, from how the last one that had its turn came out."""
        last = self.evaluation.cases[-1].status
        if last in (Status.PASSED, Status.INCORRECT):
            return "the deadline left no time for more"
        return f"after {last.replace('_', ' ')}, nothing more can be said"

    @property
    def stages(self) -> list[tuple[str, float]]:
        """Stage and milliseconds, in the order in which they happen."""
        return sorted(
            self.evaluation.stage_ms.items(), key=lambda stage: _PLACES.get(stage[0], len(_PLACES))
        )

    @cached_property
    def kernels(self) -> list[KernelRow]:
        """The kernels of the profile, longest first."""
        profile = self.evaluation.profile
        return sorted(profile.kernels, key=lambda row: -row.total_us) if profile else []
