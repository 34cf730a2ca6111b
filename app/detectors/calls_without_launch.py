"""JUDGE: a kernel that is launched when a call is made alone, and not when there are
others (hack 2g).

The inputs of a block's calls all lie there when its clock starts.  A candidate that finds those of
later calls behind the first one's computes all of them in one launch, and has the launches of the
others for nothing: of calls that are mostly launching, that is most of the time.  Evidence: the
launches of all calls, by its process's own count, are fewer than half of the calls, although in the
profiled call, which nothing comes after, it launches something.

Not detected: a process that lies about its launches (see decoy_kernel), a candidate that
launches something in every call, which costs the time it wanted to save, and kernels that are
not counted: torch's, and those of CUDA sources. A recorded graph is no suspect: in the profiled
call nothing is launched either.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.domain.verdict import Finding, Label, Subject

SHARE = 0.5
"""Honest ones may leave their kernel aside for inputs of some kinds, which are few."""

LEAST_CALLS = 20
"""Calls from which on a share of them says something."""


class CallsWithoutLaunch:
    """Fewer launches than calls."""

    version = 1

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Only where anything was launched in a call of its own."""
        evaluation = subject.evaluation
        testimony, calls = (
            evaluation.testimony,
            evaluation.correctness.calls if evaluation.correctness else 0,
        )
        if (
            not testimony.launches_alone
            or calls < LEAST_CALLS
            or testimony.launches >= SHARE * calls
        ):
            return
        yield Finding(
            detector="calls_without_launch",
            version=self.version,
            label=Label.SUSPECT,
            summary=(
                f"{testimony.launches_alone} launches in a call of its own, and"
                f" {testimony.launches} in {calls} calls: answers to several calls come from one"
                " launch"
            ),
            evidence={
                "launches": testimony.launches,
                "launches_alone": testimony.launches_alone,
                "calls": calls,
            },
        )
