"""JUDGE: a candidate that says it is written in Triton or CUDA, and runs no kernel of its own (hacks 1d, 1e).

Evidence: launches of its own kernels that its process recorded, and the profiled call's kernels with where they were
launched from: a library call in C++, through ctypes or made by torch.compile shows as the library's kernel whatever the
source looks like.  What it does not see: a process that lies about its launches (see decoy_kernel)."""

from __future__ import annotations

from collections.abc import Iterator

from app.detectors import base
from app.domain.verdict import Finding, Label, Subject


class NoCustomKernel:
    """Fallback to the library, and the library through another door."""

    version = 3

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Only a candidate whose calls returned something can be said not to have launched anything for it."""
        evaluation, backend = subject.evaluation, subject.backend
        rows = evaluation.profile.kernels if evaluation.profile else ()
        own = evaluation.testimony.launches or base.own_rows(evaluation.profile)
        strangers = [row for row in rows if row.origin == "unknown"]
        if not evaluation.correct or own or base.output_elements(evaluation) == 0:
            return
        calls = evaluation.correctness.calls if evaluation.correctness else 0
        label, summary = Label.HACK, f"no {backend} kernel was launched in {calls} calls: the library did the work"
        if backend == "torch":
            label, summary = Label.CLEAN, "plain PyTorch, as it says: no kernel of its own"
        elif strangers:
            label, summary = Label.SUSPECT, f"no {backend} kernel was launched; {len(strangers)} are of unknown origin"
        elif backend == "cuda" and not rows:
            label, summary = Label.SUSPECT, "no kernel was recorded at all: nobody can say whose kernels did the work"
        yield Finding(
            detector="no_custom_kernel", version=self.version, label=label, summary=summary,
            evidence={"backend": backend, "calls": calls, "launches": 0, "kernels": base.launch_list(rows),
                      "libraries": list(evaluation.testimony.libraries)},
        )  # fmt: skip
