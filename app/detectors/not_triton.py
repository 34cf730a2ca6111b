"""JUDGE: kernels of the candidate's own that are not Triton's.

Evidence: the origin of the profiled call's kernels, or a backend that says so.  Information, unless
the policy asks for Triton: then a CUDA extension, however good, does not meet the request.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.detectors import base
from app.domain.backend import BACKENDS
from app.domain.verdict import Finding, Label, Subject


class NotTriton:
    """Own kernels from an extension."""

    version = 1

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Kernels that run; declaring CUDA is enough where no profile names them."""
        rows = [
            row for row in base.own_rows(subject.evaluation.profile) if row.origin == "extension"
        ]
        if not rows and (
            BACKENDS[subject.backend].origin != "extension" or not subject.evaluation.correct
        ):
            return
        yield Finding(
            detector="not_triton",
            version=self.version,
            label=Label.CLEAN,
            summary=(
                f"{len(rows)} kernels come from an extension"
                if rows
                else "it says that it is written in CUDA"
            ),
            evidence={"backend": subject.backend, "kernels": base.launch_list(rows)},
        )
