"""JUDGE: the library does a good part of the work beside kernels of the candidate's
own (hacks 1d, 1e).

Evidence: the profiled call's kernels by origin, and the shared libraries that were loaded while the
candidate ran; not its text, so that `at::matmul` in C++, cuBLAS through ctypes and torch.compile
look alike.  Information, unless the policy wants all work done in Triton: a library product beside
one fused epilogue is how good engineers work.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.detectors import base
from app.domain.verdict import Finding, Label, Subject

SHARE = 0.1
"""Share of device time: fills, copies and transposes that prepare data stay below it."""

MATHEMATICAL = (
    "libcublas",
    "libcudnn",
    "libcusparse",
    "libcusolver",
    "libcufft",
    "libcutlass",
    "libnvrtc",
)
"""Libraries that compute, or that compile something which does."""


class LibraryWork:
    """Library work beside the candidate's own kernels."""

    version = 2

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Only where both took part; where only the library did, see no_custom_kernel."""
        evaluation = subject.evaluation
        work = base.work(evaluation.profile)
        if (
            evaluation.profile is None
            or work is None
            or not work.own_us
            or work.library_share <= SHARE
        ):
            return
        rows = base.library_rows(evaluation.profile)
        origins = sorted({row.origin for row in rows})
        libraries = [
            name for name in evaluation.testimony.libraries if name.startswith(MATHEMATICAL)
        ]
        time = "modelled work" if work.modelled else "device time"
        yield Finding(
            detector="library_work",
            version=self.version,
            label=Label.CLEAN,
            summary=(
                f"{work.library_share:.0%} of the {time} is in kernels of {' and '.join(origins)}"
            ),
            evidence={
                "own_us": work.own_us,
                "library_us": work.library_us,
                "kernels": base.launch_list(rows),
                "libraries": libraries,
            },
        )
