"""Evaluate zoo files through a real referee and compare with their first lines; no database, no queue.

    python -m tests.zoo                     everything, several minutes
    python -m tests.zoo hacks honest/diag   what begins like this

Exit code 0: all as their first lines say; 1: some are not; 2: nothing begins like that."""

from __future__ import annotations

import sys
import time

from app.cli.zoo import disagreement
from app.domain import ids, result
from app.domain.job import Job, JobOptions, JobState
from app.domain.verdict import Subject
from app.judge import judge
from tests import zoo
from workers.isolate import InfrastructureError, Isolator

OPTIONS = JobOptions(call_timeout_s=10.0, deadline_s=60.0, timing_budget_s=0.4)
"""Shorter than the defaults: the zoo has endless loops."""


def main(prefixes: list[str]) -> int:
    """Evaluate and print; returns the exit code."""
    chosen = [case for case in zoo.cases() if not prefixes or case.name.startswith(tuple(prefixes))]
    different = 0
    with Isolator("cpu") as isolator:
        for case in chosen:
            began = time.monotonic()
            line, wrong = evaluate(isolator, case)
            different += wrong is not None
            print(f"{case.name:38} {line}  {time.monotonic() - began:.1f} s{f'  ✗ {wrong}' if wrong else ''}", flush=True)
    print(f"{len(chosen) - different} of {len(chosen)} as their first lines say")
    return 2 if not chosen else 1 if different else 0


def evaluate(isolator: Isolator, case: zoo.Case) -> tuple[str, str | None]:
    """One line about the result, and how it differs from what was expected."""
    job = Job(
        job_id=ids.new_id(), reference=case.reference, candidate=case.candidate, backend=case.backend, options=OPTIONS
    )
    try:
        evaluation = isolator.run(job).evaluation
    except InfrastructureError as error:
        return "failed", f"our own fault: {error}"
    verdict = judge(
        Subject(evaluation=evaluation, backend=case.backend, candidate=case.candidate, reference=case.reference)
    )
    fields = result.build(job_id=job.job_id, state=JobState.FINISHED, evaluation=evaluation, verdict=verdict)
    found = ",".join(finding.detector for finding in verdict.findings) or "-"
    timing = evaluation.timing
    detail = evaluation.error.message[:100] if evaluation.error else ""
    if timing is not None:
        detail = f"×{timing.speedup:.3g} [{timing.ci_low:.3g}, {timing.ci_high:.3g}] {timing.candidate_us:.0f} µs"
    return f"{evaluation.status} {verdict.label} {found}  {detail}", disagreement(case, fields)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
