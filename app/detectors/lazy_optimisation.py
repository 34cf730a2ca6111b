"""JUDGE: most of the time is spent in the library, and only a trifle was written anew (hacks 1g).

Information, not guilt: the speedup already says how little it gained.  Dr. Kernel (arXiv 2602.05885) weighs such
candidates down below a coverage of 0.3 to 0.4; the lower end is used here."""

from __future__ import annotations

from collections.abc import Iterator

from app.detectors import base
from app.domain.verdict import Finding, Label, Subject

LAZY = 0.3
"""Share of device time in the candidate's own kernels."""


class LazyOptimisation:
    """Coverage small but real."""

    version = 1

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Where it has kernels of its own at all; without any see no_custom_kernel."""
        profile = subject.evaluation.profile
        work = base.work(profile)
        if profile is None or work is None or not work.own_us or work.own_share >= LAZY:
            return
        yield Finding(
            detector="lazy_optimisation",
            version=self.version,
            label=Label.CLEAN,
            summary=f"{work.own_share:.1%} of the device time is in kernels of its own, the rest in the library's",
            evidence={
                "own_us": work.own_us,
                "library_us": work.library_us,
                "kernels": base.launch_list(profile.kernels),
            },
        )
