"""EVALUATE: a problem by cases: each case is evaluated with a candidate process of its own, and the
evaluations are merged.

A case is a problem like any other, with a model that returns the known answer
(workers/shims/problem/cases.py).  A candidate passes if it passes every case.  After a wrong answer
the remaining cases still run; after any other failure they do not.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

from app.domain.evaluation import Evaluation, EvaluationError, Status
from app.domain.evidence import Ablation, Testimony, Traces
from app.domain.job import Job
from app.domain.output_checks import Correctness, PeerRule, Trial
from workers.referee.cancellation import Cancellation
from workers.referee.comparison.precision_class import CLASS_NAMES
from workers.referee.evaluate import evaluate
from workers.referee.resources import Resources

CONTINUES_AFTER = frozenset({Status.PASSED, Status.INCORRECT})

KEPT_TRIALS = 64
"""Trials stored in full, of all cases together: wrong ones first."""

SHARING = 20
"""Cases that share one deadline: 100 cases have five deadlines.  A correct Triton softmax took 1.9
s a case on the CPU device (two cores), so 120 s for all of 100 cases were over after 63.
"""

LONGEST_S = 3600.0
"""Limit for all cases, in seconds, unless a single evaluation's deadline is longer."""

EMPTY = "in no case do the outputs have any elements: there is no answer that could be wrong"

LEAST_S = 1.0
"""Remaining seconds below which no further case is begun."""


def evaluate_cases(
    job: Job, resources: Resources, cancellation: Cancellation | None = None
) -> tuple[Evaluation, Traces]:
    """The merged evaluation, and the traces of the first case.  The deadline applies to all cases
    together and grows with their number beyond `SHARING`.

    Raises only for faults of the referee, as `evaluate` does.
    """
    cancellation = cancellation or Cancellation()
    seed, spent_s, whole_s = os.urandom(32), 0.0, job.options.deadline_s
    uncharged = resources.device_lock.uncharged
    worked_s = uncharged.work_s()
    found: list[Evaluation] = []
    traces: list[Traces] = []
    is_slow = False
    while _has_next_case(found):
        left_s = whole_s - spent_s
        is_slow = uncharged.work_s() - worked_s > whole_s
        if found and (left_s < LEAST_S or is_slow or cancellation.requested):
            break
        one = replace(job, case=len(found), options=replace(job.options, deadline_s=left_s))
        began, uncharged_s = time.monotonic(), uncharged.total_s()
        evaluation, recorded = evaluate(one, resources, cancellation, _seed_of(seed, len(found)))
        resources.candidates.reap()
        spent_s += time.monotonic() - began - (uncharged.total_s() - uncharged_s)
        found.append(evaluation)
        traces.append(recorded)
        whole_s = allowed_s(
            job.options.deadline_s, evaluation.cases[0].of if evaluation.cases else 1
        )
        cancellation.more_s = max(cancellation.more_s, whole_s - job.options.deadline_s)
    return merged(found, seed, whole_s, is_slow=is_slow), traces[0]


def allowed_s(deadline_s: float, cases: int) -> float:
    """Seconds for this number of cases, for a job with this deadline."""
    return max(deadline_s, min(LONGEST_S, deadline_s * cases / SHARING))


def merged(
    found: Sequence[Evaluation], seed: bytes, deadline_s: float, *, is_slow: bool = False
) -> Evaluation:
    """One evaluation from those of the cases, in order; at least one.  It has timed out if
    the deadline left some cases out, and is invalid if the reference's work did (`is_slow`).
    """
    first = found[0]
    cases = tuple(case for each in found for case in each.cases)
    status, error = _end(found, deadline_s, is_slow=is_slow)
    return replace(
        first,
        status=status,
        error=error,
        seed=seed.hex(),
        cases=cases,
        correctness=_correctness(
            [(each.correctness, _name(each)) for each in found if each.correctness]
        ),
        ablation=_decisive_ablation(found),
        compiled_kernels=tuple(
            dict.fromkeys(kernel for each in found for kernel in each.compiled_kernels)
        ),
        testimony=_testimony([each.testimony for each in found]),
        stage_ms=_summed([each.stage_ms for each in found]),
    )


def _has_next_case(found: Sequence[Evaluation]) -> bool:
    """True if another case exists and the results so far allow running it."""
    if not found:
        return True
    last = found[-1]
    return last.status in CONTINUES_AFTER and bool(last.cases) and len(found) < last.cases[0].of


def _seed_of(seed: bytes, case: int) -> bytes:
    return hashlib.sha256(seed + b"case" + case.to_bytes(4, "little")).digest()


def _name(evaluation: Evaluation) -> str:
    return evaluation.cases[0].name if evaluation.cases else ""


def _end(
    found: Sequence[Evaluation], deadline_s: float, *, is_slow: bool
) -> tuple[Status, EvaluationError | None]:
    """Status and error of all cases together.  If the problem itself fails in one case, no other
    case counts against the candidate.
    """
    bad = [each for each in found if each.status is not Status.PASSED]
    of = found[0].cases[0].of if found[0].cases else 1
    if not bad and len(found) < of:
        message = f"{len(found)} of {of} cases in {deadline_s:g} s, and all of those right"
        if is_slow:
            message = f"the reference's work alone took longer: {message}"
            return Status.INVALID, EvaluationError(kind="reference_failed", message=message)
        return Status.TIMEOUT, EvaluationError(kind="deadline", message=message)
    if not bad and not any(map(_has_elements, found)):
        return Status.INVALID, EvaluationError(kind="reference_failed", message=EMPTY)
    if not bad:
        return Status.PASSED, None
    worst = next((each for each in bad if each.status is not Status.INCORRECT), bad[0])
    worst = next((each for each in bad if each.status is Status.INVALID), worst)
    assert worst.error is not None
    where = f"case {_name(worst)!r} of {of}: " if worst.cases else ""
    others = ", ".join(repr(_name(each)) for each in bad if each is not worst)
    return worst.status, replace(
        worst.error,
        message=where + worst.error.message + (f" (failed, too: {others})" if others else ""),
    )


def _has_elements(evaluation: Evaluation) -> bool:
    """Return whether any verified answer held something; also of one without a record."""
    trials = evaluation.correctness.trials if evaluation.correctness else ()
    return not trials or any(prod(check.shape) for trial in trials for check in trial.outputs)


def _correctness(found: Sequence[tuple[Correctness, str]]) -> Correctness | None:
    """Correctness over all calls.  Evidence against the problem, such as a trivial answer that
    passes, must hold in every case: one sound case is enough.
    """
    if not found:
        return None
    records = [record for record, _ in found]
    nulls = set.intersection(*(set(record.null_answers) for record in records))
    return replace(
        records[0],
        calls=sum(record.calls for record in records),
        near_calls=sum(record.near_calls for record in records),
        own_truth_calls=sum(record.own_truth_calls for record in records),
        failed_calls=sum(record.failed_calls for record in records),
        trials=_trials(found),
        has_inputs=any(record.has_inputs for record in records),
        output_constant=all(record.output_constant for record in records),
        deterministic=_worst(record.deterministic for record in records),
        propagates_nonfinite=_worst(record.propagates_nonfinite for record in records),
        precision_class=_widest(record.precision_class for record in records),
        peer_rules=_peer_rules(records),
        tolerance="; ".join(dict.fromkeys(record.tolerance for record in records)),
        null_answers=tuple(name for name in records[0].null_answers if name in nulls),
        insensitive_to=(),
    )


def _trials(found: Sequence[tuple[Correctness, str]]) -> tuple[Trial, ...]:
    """Trials to store: wrong ones first, then as many of each case as fit, in the
    order of the cases.
    """
    named = [replace(trial, case=name) for record, name in found for trial in record.trials]
    kept = sorted(range(len(named)), key=lambda at: (named[at].ok, named[at].call))[:KEPT_TRIALS]
    return tuple(named[at] for at in sorted(kept))


def _worst(answers: Iterable[bool | None]) -> bool | None:
    """False if any answer is False; None if no answer is known."""
    known = [answer for answer in answers if answer is not None]
    return all(known) if known else None


def _widest(classes: Iterable[str | None]) -> str | None:
    """Precision class of the largest error; None if a case had a wrong answer."""
    names = list(classes)
    return (
        None
        if None in names
        else max((name for name in names if name), key=CLASS_NAMES.index, default=None)
    )


def _peer_rules(records: Sequence[Correctness]) -> tuple[PeerRule, ...]:
    """Results of other evaluators' rules, summed by name."""
    sums: dict[str, tuple[int, int]] = {}
    for rule in (rule for record in records for rule in record.peer_rules):
        passed, calls = sums.get(rule.name, (0, 0))
        sums[rule.name] = (passed + rule.passed_calls, calls + rule.calls)
    return tuple(
        PeerRule(name=name, passed_calls=passed, calls=calls)
        for name, (passed, calls) in sums.items()
    )


def _decisive_ablation(found: Sequence[Evaluation]) -> Ablation | None:
    """Ablation of the first case in which the candidate's kernels do not matter;
    else of the first case.
    """
    seen = [each.ablation for each in found if each.ablation is not None]
    against = (
        each
        for each in seen
        if each.still_correct or each.copies_still_correct or each.replays_still_correct
    )
    return next(against, seen[0] if seen else None)


def _testimony(found: Sequence[Testimony]) -> Testimony:
    return Testimony(
        launches=sum(each.launches for each in found),
        launches_alone=sum(each.launches_alone for each in found),
        failures=tuple(dict.fromkeys(line for each in found for line in each.failures)),
        output_types=tuple(dict.fromkeys(name for each in found for name in each.output_types)),
        stdout="".join(dict.fromkeys(each.stdout for each in found)),
        libraries=tuple(dict.fromkeys(name for each in found for name in each.libraries)),
    )


def _summed(stages: Sequence[dict[str, float]]) -> dict[str, float]:
    """Milliseconds by stage, summed over the cases."""
    sums: dict[str, float] = {}
    for name, taken_ms in (item for each in stages for item in each.items()):
        sums[name] = sums.get(name, 0.0) + taken_ms
    return sums
