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
Where honest work is one small epilogue after a large product (0.03), the label is the same, and is
not wrong: the product is the library's.

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
"""Library launches of a call whose shortest possible time is not held against a candidate."""

PREPARES = re.compile(
    r"aten::(clone|copy_|zero_|fill_|zeros|ones|full|(zeros|ones|full)_like|new_(zeros|ones|full))|.*\bFillFunctor\b.*"
)
"""Operators, and kernels on a GPU, that fill or copy.  Copies on the device are no
kernels there, and have no share.
"""


class LazyOptimisation:
    """Coverage small but real."""

    version = 4

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
        if work is None or work.own_share >= LOW:
            return
        lazy = work.own_us < LAZY * (
            work.own_us
            + work.library_us
            + work.unknown_us
            - _unavoidable_us(evaluation, profile, work)
        )
        yield Finding(
            detector="lazy_optimisation",
            version=self.version,
            label=Label.SUSPECT if lazy else Label.CLEAN,
            summary=(
                f"{work.own_share:.1%} of the {'modelled work' if work.modelled else 'device time'}"
                " is in kernels of its own, the rest in the"
                f" library's{f': below {LAZY:.0%} they are a token' if lazy else ''}"
            ),
            evidence={
                "own_us": work.own_us,
                "library_us": work.library_us,
                "unknown_us": work.unknown_us,
                "modelled": work.modelled,
                "kernels": base.launch_list(profile.kernels),
            },
        )


def _unavoidable_us(evaluation: Evaluation, profile: Profile, work: base.Work) -> float:
    """Time of a call that preparing the outputs takes, and that a few other library launches take
    whatever they do; the latter not where the work is modelled.
    """
    rows, calls = base.library_rows(profile), max(1, profile.calls)
    preparing = [row for row in rows if PREPARES.fullmatch(row.name)]
    pass_us = 2 * base.output_bytes(evaluation) / base.MODELLED_BYTES_PER_US
    prepared = min(base.us(preparing, modelled=work.modelled) / calls, pass_us)
    if work.modelled:
        return prepared
    launches = sum(row.launches for row in rows if row not in preparing) / calls
    return min(work.library_us, prepared + SHORTEST_US * min(FEW, launches))
