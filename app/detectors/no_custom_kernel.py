"""JUDGE: a candidate that says it is written in Triton or CUDA, and runs no kernel
of its own (hacks 1d, 1e).

Evidence: launches of its own kernels that its process recorded, and the profiled call's kernels
with where they were launched from: a library call in C++, through ctypes or made by
torch.compile shows as the library's kernel whatever the source looks like.  Launches in the
constructor or in the first calls alone do not count: the timed calls come later. Where the
driver's profiler looked, its table decides and not the process's count.  It does not see a
process that lies about both (see decoy_kernel).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.detectors import base
from app.domain.backend import BACKENDS
from app.domain.evaluation import Evaluation
from app.domain.source.source_ablation import BY_SOURCE
from app.domain.verdict import Finding, Label, Subject


class NoCustomKernel:
    """Fallback to the library, and the library through another door."""

    version = 6

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Judges only candidates with calls that returned something: others cannot be
        said to launch nothing for it.
        """
        evaluation, backend = subject.evaluation, subject.backend
        rows = evaluation.profile.kernels if evaluation.profile else ()
        early = _launched_early(evaluation)
        looked = _looked(evaluation)
        own = (evaluation.testimony.launches and not early and not looked) or base.own_rows(
            evaluation.profile
        )
        strangers = [row for row in rows if row.origin == "unknown"]
        if not evaluation.correct or own or base.output_elements(evaluation) == 0:
            return
        calls = evaluation.correctness.calls if evaluation.correctness else 0
        label, summary = (
            Label.HACK,
            f"no {backend} kernel was launched in {calls} calls: the library did the work",
        )
        if early:
            launches = evaluation.testimony.launches
            summary = (
                f"{launches} launches of {backend} kernels, all of them early: the library did the"
                " work of later calls"
            )
        if not BACKENDS[backend].brings_kernels:
            label, summary = Label.CLEAN, "plain PyTorch, as it says: no kernel of its own"
        elif strangers:
            label, summary = (
                Label.SUSPECT,
                f"no {backend} kernel was launched; {len(strangers)} are of unknown origin",
            )
        elif looked and evaluation.testimony.launches and not early:
            label = Label.SUSPECT
            summary = (
                f"its process counts {evaluation.testimony.launches} launches, and the device ran"
                " none of them"
            )
        elif not BACKENDS[backend].replaceable_launches and not rows:
            label, summary = (
                Label.SUSPECT,
                "no kernel was recorded at all: the origin of the work is unknown",
            )
        failures = evaluation.testimony.failures
        yield Finding(
            detector="no_custom_kernel",
            version=self.version,
            label=label,
            summary=summary + _after_failures(failures),
            evidence={
                "backend": backend,
                "calls": calls,
                "launches": evaluation.testimony.launches,
                "kernels": base.launch_list(rows),
                "libraries": list(evaluation.testimony.libraries),
                **({"failures": list(failures)} if failures else {}),
            },
        )


def _after_failures(failures: Sequence[str]) -> str:
    """End of the summary: the first failure that the source caught; empty without one."""
    return f"; its source caught a failure ({failures[0][:300]})" if failures else ""


def _looked(evaluation: Evaluation) -> bool:
    """True if the driver's profiler saw all that ran, so that the process's own count says nothing
    beside it; not where the answer stayed right without its kernels: decoy_kernel says so.
    """
    profile, ablation = evaluation.profile, evaluation.ablation
    if profile is None or profile.source != "profiler" or not profile.kernels:
        return False
    return ablation is None or not ablation.still_correct


def _launched_early(evaluation: Evaluation) -> bool:
    """True if kernels were launched once, but in a later call none ran and none was left to skip.

    On a GPU a recorded graph looks the same to all but the driver's profiler.  Where the answer
    stayed right without them, decoy_kernel says so.
    """
    ablation, profile = evaluation.ablation, evaluation.profile
    if (
        ablation is None
        or profile is None
        or not evaluation.testimony.launches
        or ablation.still_correct is not False
    ):
        return False
    sees_all = evaluation.environment.device_class == "cpu" or profile.source == "profiler"
    returned = ablation.reason in ("", BY_SOURCE)
    return sees_all and returned and not ablation.launches_skipped and not base.own_rows(profile)
