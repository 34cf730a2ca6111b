"""JUDGE: its source reaches into the process that says whose work it is (hacks 5e, 6d).

Evidence: the source, parsed and never run (app/domain/source/process_reach.py): frames, live
objects, loaded modules, dispatch modes, members of libraries that are assigned to, text that
is run, and native code beside interpreted kernels.  Which kernels did the work is the account
of the candidate's own process, and such a source could rewrite the account, or work past it;
so a candidate with kernels of its own has no credit for them.  In 170 published honest
kernels and 150 of the zoo there is none.

Files are no fault: they lie in a folder of the process's own and end with it.  But a file that
Python would import in place of torch, Triton, numpy, its own start or Assay is meant for other
processes, and makes any candidate suspect.

It guards against plain text.  A source that hides such a name is found by acts that cannot be
hidden: it has to run text, or to take names apart and together (static_hints).
"""

from __future__ import annotations

from collections.abc import Iterator

from app.detectors import base
from app.domain.backend import BACKENDS
from app.domain.source import process_reach, process_reach_names
from app.domain.verdict import Finding, Label, Subject


class ReachesProcess:
    """Ways out of the candidate's own code."""

    version = 9

    def detect(self, subject: Subject) -> Iterator[Finding]:
        """Only where it passed; most ways where its own kernels are credited by the
        process's account.
        """
        if not subject.candidate or not subject.evaluation.correct:
            return
        ways = process_reach.files_in_place_of_modules(subject.candidate)
        if base.own_rows(subject.evaluation.profile):
            ways = process_reach.ways(subject.candidate, native=_native(subject))
        if ways:
            yield Finding(
                detector="reaches_process",
                version=self.version,
                label=Label.SUSPECT,
                summary=(
                    "its source reaches into the process that accounts for its work:"
                    f" {', '.join(ways)[:200]}"
                ),
                evidence={"ways": list(ways[: base.LISTED])},
            )


def _native(subject: Subject) -> frozenset[str]:
    """Ways to native code, beside interpreted kernels; a GPU's work is in the driver's account."""
    interpreted = (
        subject.evaluation.environment.device_class == "cpu"
        and BACKENDS[subject.backend].interpreted_on_cpu
    )
    return process_reach_names.NATIVE if interpreted else frozenset()
