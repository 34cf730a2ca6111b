"""JUDGE: kernels that ran and that the source does not show (hacks 5a, 5b).

Evidence: names of Triton kernels in the profiled call, and the functions of the source under `jit`,
parsed and never run.  A kernel that is put together at run time, comes out of a string or goes by
another name cannot be told from others by reading, and a verdict by the source
(workers/referee/probes/ablation.py) says nothing of it.  Helper functions that other modules bring
are not the candidate's either.

It guards against sources that a reader cannot follow, not against kernels that do
nothing: see decoy_kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.detectors import base
from app.domain.source import source_ablation
from app.domain.verdict import Finding, Label, Subject


class UnreadSource:
    """Launched kernels without a function in the source."""

    version = 1

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Only where the candidate passed and its source is known."""
        if not subject.candidate or not subject.evaluation.correct:
            return
        launched = {
            row.name for row in base.own_rows(subject.evaluation.profile) if row.origin == "triton"
        }
        missing = sorted(launched - source_ablation.kernel_names(subject.candidate))
        if missing:
            yield Finding(
                detector="unread_source",
                version=self.version,
                label=Label.SUSPECT,
                summary=f"kernels ran that its source does not show: {', '.join(missing)[:200]}",
                evidence={"missing": missing[: base.LISTED]},
            )
