"""Evaluate zoo files through a real referee and compare with their first lines, without
database or queue.

    python -m tests.zoo                     everything, several minutes
    python -m tests.zoo hacks honest/diag   files that begin like this
    python -m tests.zoo --gpu               on the GPU of this machine
    python -m tests.zoo --dir ELSEWHERE     another folder of the same form
    python -m tests.zoo --json FILE         the score and every row, as JSON

Needs torch and triton, nothing else of this project's dependencies.  Exit code 0: all as
their first lines say; 1: some are not; 2: nothing begins like that.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.domain import ids, result, zoo, zoo_report
from app.domain import policy as policies
from app.domain.evaluation import Evaluation
from app.domain.job import Job, JobOptions, JobState
from app.domain.verdict import Subject, Verdict
from app.judge import judge
from tests.zoo import ROOT

OPTIONS = JobOptions(call_timeout_s=10.0, deadline_s=60.0, timing_budget_s=0.4)
"""Shorter than the defaults: the zoo has endless loops."""

BRIEF = JobOptions(call_timeout_s=4.0, deadline_s=60.0, timing_budget_s=0)
"""Correctness, profile and ablation alone, where no speedup is expected and no candidate changes a
clock: for tests.
"""

Evaluator = Callable[[Job], Evaluation]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Result of one candidate."""

    outcome: zoo_report.ZooResult
    line: str


def evaluate(
    run: Evaluator,
    case: zoo.Case,
    device_class: str = "cpu",
    policy: str = policies.DEFAULT.name,
    options: JobOptions = OPTIONS,
) -> Seen:
    """Evaluate and judge one candidate."""
    job = Job(
        job_id=ids.new_id(),
        reference=case.reference,
        candidate=case.candidate,
        backend=case.backend,
        device_class=device_class,
        options=replace(options, cases=case.is_by_cases),
    )
    evaluation = run(job)
    subject = Subject(
        evaluation=evaluation,
        backend=case.backend,
        candidate=case.candidate,
        reference=case.reference,
    )
    verdict = judge(subject, policies.find(policy))
    fields = result.build(
        job_id=job.job_id, state=JobState.FINISHED, evaluation=evaluation, verdict=verdict
    )
    return Seen(
        outcome=zoo_report.outcome(case, fields, device_class), line=_line(evaluation, verdict)
    )


def _line(evaluation: Evaluation, verdict: Verdict) -> str:
    found = ",".join(
        f"({each.detector})" if each.label == "clean" else each.detector
        for each in verdict.findings
    )
    timing = evaluation.timing
    detail = evaluation.error.message[:100] if evaluation.error else ""
    if timing is not None:
        interval = f"[{timing.ci_low:.3g}, {timing.ci_high:.3g}]"
        detail = f"×{timing.speedup:.3g} {interval} {timing.candidate_us:.0f} µs"
    return f"{evaluation.status} {verdict.label} {found or '-'}  {detail}"


def main(arguments: list[str]) -> int:
    """Evaluate and print; returns the exit code."""
    chosen = _arguments(arguments)
    device_class = "gpu" if chosen.gpu else "cpu"
    everything = [case for case in zoo.cases(chosen.dir) if case.runs_on(device_class)]
    cases = [
        case
        for case in everything
        if not chosen.prefixes or case.name.startswith(tuple(chosen.prefixes))
    ]
    if not cases:
        print(
            f"nothing in {chosen.dir} begins with {' or '.join(chosen.prefixes) or 'anything'}",
            file=sys.stderr,
        )
        return 2
    outcomes = _outcomes(cases, device_class, chosen.policy)
    total = zoo_report.Score(outcomes=tuple(outcomes))
    print("\n".join(("", *total.lines())))
    for one in outcomes:
        if one.disagreement:
            print(f"✗ {one.case.name}: {one.disagreement}")
    agreed = sum(one.disagreement is None for one in outcomes)
    print(f"{agreed} of {len(cases)} as their first lines say")
    if chosen.json:
        chosen.json.write_text(json.dumps(total.as_json(), indent=1, default=str))
    return 0 if agreed == len(cases) else 1


def _outcomes(cases: list[zoo.Case], device_class: str, policy: str) -> list[zoo_report.ZooResult]:
    """Print one line for each as it comes.  After a fault of the referee a new one evaluates the
    rest.
    """
    import torch  # not for `--help`

    torch.set_num_threads(1)
    outcomes: list[zoo_report.ZooResult] = []
    while len(outcomes) < len(cases):
        with _host(device_class) as host:
            for case in cases[len(outcomes) :]:
                one = _one(host, case, device_class, policy)
                outcomes.append(one)
                if one.fate == zoo_report.FAILED:
                    break
    return outcomes


def _host(device_class: str) -> Any:
    from workers.referee.resources import Resources

    host = Resources(device_class, "zoo")
    host.wait_ready()
    return host


def _one(host: Any, case: zoo.Case, device_class: str, policy: str) -> zoo_report.ZooResult:
    """Evaluate, judge and print one candidate."""
    from workers.referee.measure import measure

    def run(job: Job) -> Evaluation:
        evaluation, _ = measure(job, host)
        host.candidates.recycle(job.options.memory_bytes)
        return evaluation

    began = time.monotonic()
    try:
        seen = evaluate(run, case, device_class, policy)
    except Exception as error:  # noqa: BLE001 (a fault of the referee; the other candidates run on)
        said = f"failed: {type(error).__name__}: {error}"
        seen = Seen(
            outcome=zoo_report.ZooResult(
                case=case, status=None, verdict=None, findings=(), speedup=None, disagreement=said
            ),
            line="",
        )
    wrong = f"  ✗ {seen.outcome.disagreement}" if seen.outcome.disagreement else ""
    print(f"{case.name:38} {seen.line}  {time.monotonic() - began:.1f} s{wrong}", flush=True)
    return seen.outcome


def _arguments(arguments: list[str]) -> Any:
    parser = argparse.ArgumentParser(
        prog="python -m tests.zoo", description="Hold the system to the zoo."
    )
    parser.add_argument("prefixes", nargs="*", help="names begin like this: hacks, honest/diag")
    parser.add_argument(
        "--gpu", action="store_true", help="on the GPU of this machine instead of the CPU device"
    )
    parser.add_argument(
        "--dir", type=Path, default=ROOT, help="folder with problems/, honest/, hacks/ …"
    )
    parser.add_argument("--policy", choices=list(policies.POLICIES), default=policies.DEFAULT.name)
    parser.add_argument("--json", type=Path, help="write the score and every row to this file")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
