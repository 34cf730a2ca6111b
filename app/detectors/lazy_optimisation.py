"""JUDGE: most of the time is spent in the library, and only a trifle was written
anew (hacks 1f, 1g).

Evidence: the profiled call's kernels by origin, wherever they were launched: beside the
candidate's kernels, in a launch's hook, in the function that gives its grid, under
`torch.compile`.  On the CPU device the work of both sides is modelled from their reads, writes and
products.  Below a tenth the candidate is suspect: its speedup, if it has one, is that of a rewrite
in PyTorch, and it is no example of kernel writing.  Up to 0.3, where Dr. Kernel (arXiv 2602.05885)
begins to weigh candidates down, it is information; the share itself (coverage by time, PR) is the
continuous form, and the one to reward by.

A tenth, because it lies between both kinds.  Of 70 honest Triton candidates of the zoo
(tests/zoo/honest, CPU device) three do less than 0.3 of the modelled work and none less than 0.23:
a product, or a check for finite rows, beside one kernel; on an H200 a product beside a fused
epilogue has 0.27.  Library work behind a seal, in a grid, in a hook or beside a kernel for some
rows leaves 0.003 to 0.04 on the CPU device, and published fig leaves 0.001 to 0.08 on an H200.

A fast kernel has a small share because it is fast.  Where both sides leave matrix products or
convolutions to the library (workers/referee/probes/shared_products.py), a candidate is therefore
judged without them: it is not suspect if its kernels do 0.3 of the rest of its own work, and
take over a tenth of the reference's whole work from the library, which is the work of the
reference's other operators less that of the candidate's.  So a loss beside a large product is
honest work, and an epilogue too small to matter, a rewrite of the loss in PyTorch beside a kernel,
or products in another order are none.  Nor is a gain larger than those operators' time: the
library's products have become faster then.

The initial content of an output is no computation: a kernel that writes a diagonal among zeros, or
a few elements of a copy, leaves the fill or the copy to the library as the reference does.  So much
of the library's fills and copies as one pass over the outputs takes, to read and to write, is not
held against a candidate either.

A candidate that does unnecessary work in kernels of its own has a larger share, and
pays for it in its speedup.

No kernel is shorter than about 1.5 µs, so that the seven launches of a check for finite values,
which do next to nothing, outweigh a kernel of 2 µs.  That much time is not held against a candidate
for each of its first eight library launches: 12 µs a call, which 1.3 µs of unnecessary work of its
own would buy.  The share that is stated, and that rewards see, is that of the whole time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from app.detectors import base
from app.domain.evaluation import Evaluation
from app.domain.kernel_profile import Profile
from app.domain.verdict import Finding, Label, Subject

LAZY = 0.1
"""Share of device time in the candidate's own kernels below which they are a token."""

LOW = 0.3
"""Share below which a reader should know."""

SHORTEST_US = 1.5
"""Device time of a kernel that does nothing (H200)."""

FEW = 8
"""Library launches of a call of which the shortest possible time is not held against a candidate.
"""

EAGER = 3.0
"""Time of the reference's operators, at the most, over that of reading and writing their tensors
once.  Thirteen fused losses, softmaxes and norms gained 0.6 to 1.7 times that much (H200).
"""

PREPARES = re.compile(
    r"aten::(clone|copy_|zero_|fill_|zeros|ones|full|(zeros|ones|full)_like|new_(zeros|ones|full))|.*\bFillFunctor\b.*"
)
"""Operators, and kernels on a GPU, that fill or copy.  Copies on the device are no
kernels there, and have no share.
"""


class LazyOptimisation:
    """Coverage small but real."""

    version = 5

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Only where it passed and has kernels of its own at all; without any see
        no_custom_kernel.
        """
        evaluation = subject.evaluation
        profile = evaluation.profile
        own = base.own_rows(profile)
        work = base.work_or_rest(profile)
        if (
            profile is None
            or not own
            or not evaluation.correct
            or base.output_elements(evaluation) == 0
        ):
            return
        if all(row.work_bytes == 0 for row in own):
            yield Finding(
                detector="lazy_optimisation",
                version=self.version,
                label=Label.SUSPECT,
                summary=(
                    "its kernels were interpreted, and moved nothing: what they did was not done in"
                    " Triton"
                ),
                evidence={"modelled": True, "kernels": base.launch_list(profile.kernels)},
            )
            return
        if work is not None and work.own_share < LOW:
            yield self._by_share(evaluation, profile, work)

    def _by_share(self, evaluation: Evaluation, profile: Profile, work: base.Work) -> Finding:
        """The finding for a share below LOW."""
        few = work.own_us < LAZY * (
            work.own_us
            + work.library_us
            + work.unknown_us
            - _unavoidable_us(evaluation, profile, work)
        )
        beside = _beside_products(evaluation, profile, work)
        lazy = few and not (beside and beside.is_work)
        return Finding(
            detector="lazy_optimisation",
            version=self.version,
            label=Label.SUSPECT if lazy else Label.CLEAN,
            summary=(
                f"{work.own_share:.1%} of the {'modelled work' if work.modelled else 'device time'}"
                " is in kernels of its own, the rest in the library's"
                f"{f': below {LAZY:.0%} they are a token' if lazy and not beside else ''}"
                f"{f'; {beside.said}' if few and beside else ''}"
            ),
            evidence={
                "own_us": work.own_us,
                "library_us": work.library_us,
                "unknown_us": work.unknown_us,
                "modelled": work.modelled,
                **({"beside_products": beside._asdict()} if beside else {}),
                "kernels": base.launch_list(profile.kernels),
            },
        )


class BesideProducts(NamedTuple):
    """The work of one call without the products that both sides leave to the library."""

    own_us: float
    """Time in kernels of the candidate's own."""
    rest_us: float
    """Time of the library's other operators in the candidate."""
    reference_us: float
    """Least time of the other operators of the reference."""
    products_us: float
    """Time of the products in the candidate."""
    gained_us: float | None
    """Time that the candidate gains; None if the device's time is not known, or not its limit."""

    @property
    def own_share(self) -> float:
        """Share of its own kernels in the candidate's work."""
        whole_us = self.own_us + self.rest_us
        return self.own_us / whole_us if whole_us else 0.0

    @property
    def taken_share(self) -> float:
        """Share of the reference's work, with the products, that they take over."""
        return max(0.0, self.reference_us - self.rest_us) / (self.reference_us + self.products_us)

    @property
    def gains_elsewhere(self) -> bool:
        """True if it gains more than the reference's other operators can take."""
        return self.gained_us is not None and self.gained_us > EAGER * self.reference_us

    @property
    def is_work(self) -> bool:
        """True if the candidate's kernels are no token beside the products."""
        return self.own_share >= LOW and self.taken_share >= LAZY and not self.gains_elsewhere

    @property
    def said(self) -> str:
        """The finding, for people."""
        if self.gains_elsewhere:
            return (
                f"it gains {self.gained_us:.3g} µs a call, and beside the products the reference"
                f" has {self.reference_us:.3g} µs of work"
            )
        limits = f": below {LOW:.0%} or {LAZY:.0%} they are a token"
        return (
            "without the products that both sides leave to the library its kernels do"
            f" {self.own_share:.0%} of its work, and take over {self.taken_share:.1%} of the"
            f" reference's{'' if self.is_work else limits}"
        )


def _beside_products(
    evaluation: Evaluation, profile: Profile, work: base.Work
) -> BesideProducts | None:
    """None where both sides share no products, or the reference's work is not known."""
    bandwidth = (
        base.MODELLED_BYTES_PER_US
        if work.modelled
        else 1000 * (evaluation.environment.bandwidth_gb_s or 0)
    )
    if not profile.shared_products or not profile.reference_rest_bytes or not bandwidth:
        return None
    library_us = work.library_us + work.unknown_us
    products_us = profile.shared_products * (work.own_us + library_us)
    launching_us = 0.0 if work.modelled else SHORTEST_US * (profile.reference_rest_operators or 0)
    timing = evaluation.timing
    on_device = timing is not None and not work.modelled and not timing.launch_bound
    return BesideProducts(
        own_us=work.own_us,
        rest_us=max(0.0, library_us - products_us - _prepared_us(evaluation, profile, work)),
        reference_us=max(profile.reference_rest_bytes / bandwidth, launching_us),
        products_us=products_us,
        gained_us=timing.reference_us - timing.candidate_us if timing and on_device else None,
    )


def _unavoidable_us(evaluation: Evaluation, profile: Profile, work: base.Work) -> float:
    """Time of a call that preparing the outputs takes, and that a few other library launches take
    whatever they do; the latter not where the work is modelled.
    """
    prepared = _prepared_us(evaluation, profile, work)
    if work.modelled:
        return prepared
    others = [row for row in base.library_rows(profile) if not PREPARES.fullmatch(row.name)]
    launches = sum(row.launches for row in others) / max(1, profile.calls)
    return min(work.library_us, prepared + SHORTEST_US * min(FEW, launches))


def _prepared_us(evaluation: Evaluation, profile: Profile, work: base.Work) -> float:
    """Time of a call in the library's fills and copies, up to that of one pass over the outputs."""
    preparing = [row for row in base.library_rows(profile) if PREPARES.fullmatch(row.name)]
    pass_us = 2 * base.output_bytes(evaluation) / base.MODELLED_BYTES_PER_US
    return min(base.us(preparing, modelled=work.modelled) / max(1, profile.calls), pass_us)
