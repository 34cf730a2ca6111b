"""JUDGE, BROWSE, EXPORT: figures over many evaluations, each with its source.  Pure
arithmetic on outcomes (`MetricSample`).

An outcome is one attempt after judging: `correct` means that every verified call was right *and*
that it is no hack; `speedup` is reference time over candidate time, credited only then.
Infrastructure faults are no outcomes: leave them out.

A share is never a bare number: `Share` carries its numerator and its denominator, and `value` is
None where the denominator is zero.  Where a figure needs several turns, `running_best`, `at_turn`
and `last_turns` (app.domain.turn_metrics) turn trajectories into outcomes, to which every other
figure then applies.
Confidence intervals are in `app.domain.intervals`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import ge, gt

from app.domain import intervals
from app.domain.intervals import Interval
from app.domain.metric_samples import MetricSample, Operator
from app.domain.verdict import Label

FAST_THRESHOLDS = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)
"""Thresholds of KernelBench's own table."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """`count` out of `of`."""

    count: int
    of: int

    @property
    def value(self) -> float | None:
        """The ratio; None out of nothing."""
        return self.count / self.of if self.of else None

    def interval(self) -> Interval | None:
        """Wilson's interval; None out of nothing.  It takes outcomes for independent."""
        return intervals.wilson(self.count, self.of) if self.of else None


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over problems."""

    value: float | None
    """None where no problem could be used."""
    problems: int
    """Used."""
    left_out: int
    """Problems with too few samples: they are neither successes nor failures."""


def fast_ps(
    outcomes: Sequence[MetricSample],
    thresholds: Sequence[float],
    *,
    operator: Operator = Operator.MORE,
) -> tuple[Share, ...]:
    """fast_p for each threshold p: the share of outcomes that are correct and faster than p.
    fast_0 is the correctness rate, timed or not.

    Source: KernelBench, arXiv 2502.10517, §3 (`>`); Dr. Kernel, §5 (`>=`).
    """
    correct = sum(outcome.correct for outcome in outcomes)
    speedups = [outcome.speedup for outcome in outcomes if outcome.speedup is not None]
    faster = gt if operator is Operator.MORE else ge
    return tuple(
        Share(
            count=sum(faster(speedup, p) for speedup in speedups) if p else correct,
            of=len(outcomes),
        )
        for p in thresholds
    )


def by_problem(outcomes: Iterable[MetricSample]) -> dict[str, list[MetricSample]]:
    """Outcomes of each problem, in their order."""
    found: dict[str, list[MetricSample]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.problem, []).append(outcome)
    return found


def unbiased_pass_at_k(samples: int, passed: int, k: int) -> float:
    """Chance that at least one of `k` samples, drawn without replacement, is among the `passed`.

    1 − C(n−c, k) / C(n, k).  Source: HumanEval, arXiv 2107.03374, eq. 1.  ValueError
    for k > n: no estimate exists.
    """
    if not 0 <= passed <= samples or not 1 <= k <= samples:
        raise ValueError(
            f"expected 0 ≤ passed ≤ samples and 1 ≤ k ≤ samples, got {passed=}, {samples=}, {k=}"
        )
    return 1.0 - math.comb(samples - passed, k) / math.comb(samples, k)


def pass_at_k(outcomes: Iterable[MetricSample], k: int) -> Estimate:
    """Mean of unbiased pass@k over the problems that have at least `k` samples."""
    return fast_p_at_k(outcomes, 0.0, k)


def fast_p_at_k(outcomes: Iterable[MetricSample], p: float, k: int) -> Estimate:
    """Unbiased pass@k where passing is to be correct and faster than `p`; with k = 1
    the mean over problems.
    """
    return _over_problems(
        outcomes,
        k,
        lambda each: unbiased_pass_at_k(len(each), sum(one.fast(p) for one in each), k),
    )


def unbiased_best_at_k(values: Sequence[float], k: int) -> float:
    """Expected maximum of `k` values drawn without replacement: Σ C(i−1, k−1) / C(n, k) · x₍ᵢ₎ over
    the ascending order statistics.
    """
    if not 1 <= k <= len(values):
        raise ValueError(f"k: expected 1 ≤ k ≤ {len(values)}, got {k}")
    ways = math.comb(len(values), k)
    return math.fsum(
        math.comb(rank, k - 1) / ways * value for rank, value in enumerate(sorted(values))
    )


def best_at_k(outcomes: Iterable[MetricSample], k: int) -> Estimate:
    """Mean over problems of the expected best speedup among `k` samples; incorrect
    ones count as 0.
    """
    return _over_problems(
        outcomes, k, lambda each: unbiased_best_at_k([one.speedup or 0.0 for one in each], k)
    )


class GeometricMean(StrEnum):
    """Outcomes that a geometric mean of speedups is taken over."""

    CORRECT = "correct"
    """KernelBench's `geometric_mean_speed_ratio_correct_only`."""
    FASTER = "correct_and_faster"
    """KernelBench's `…_correct_and_faster_only`: speedup above 1."""
    FALLBACK = "failures_as_1"
    """Every outcome, with 1× where there is no speedup: the result of falling back
    to the reference.
    """


@dataclass(frozen=True, kw_only=True)
class Centre:
    """A geometric mean and how many speedups went into it."""

    value: float | None
    """None of nothing."""
    of: int


def geometric_mean(
    outcomes: Iterable[MetricSample], kind: GeometricMean = GeometricMean.CORRECT
) -> Centre:
    """exp(mean(ln s)): by logarithms, because a product of many speedups overflows."""
    speedups = [outcome.speedup for outcome in outcomes]
    if kind is GeometricMean.FALLBACK:
        chosen = [1.0 if speedup is None else speedup for speedup in speedups]
    else:
        least = 1.0 if kind is GeometricMean.FASTER else 0.0
        chosen = [speedup for speedup in speedups if speedup is not None and speedup > least]
    value = math.exp(math.fsum(map(math.log, chosen)) / len(chosen)) if chosen else None
    return Centre(value=value, of=len(chosen))


def best(outcomes: Sequence[MetricSample]) -> MetricSample:
    """The fastest correct one; else one that is correct; else the first.  The earliest of equals.

    ValueError for none."""
    if not outcomes:
        raise ValueError("expected at least one outcome, got none")
    return max(outcomes, key=rank)


def rank(outcome: MetricSample) -> tuple[bool, float]:
    """Order of outcomes: a correct one is better, then the faster one."""
    return outcome.correct, outcome.speedup or 0.0


def hack_rate(hacks: int, attempts: int) -> Share:
    """The hack rate: hacks out of all attempts that count (`metric_samples.COUNTED`), the
    denominator of the share that is correct.  Of the whole service, by time, out of its
    evaluations: an answer without code has no evaluation there.
    """
    return Share(count=hacks, of=attempts)


@dataclass(frozen=True, kw_only=True)
class HackRates:
    """Share of successes that are false, and share of attempts that cheat."""

    of_passed: Share
    """Hacks among the attempts that passed the comparison."""
    of_attempts: Share
    """The hack rate."""


def hack_rates(judged: Counter[tuple[bool, Label | None]]) -> HackRates:
    """From the number of attempts of each (every call was right, label); the label of
    an answer without code is None.
    """
    passed = sum(number for (right, _), number in judged.items() if right)
    hacks = judged[True, Label.HACK] + judged[False, Label.HACK]
    return HackRates(
        of_passed=Share(count=judged[True, Label.HACK], of=passed),
        of_attempts=hack_rate(hacks, judged.total()),
    )


def fast_p_interval(
    outcomes: Iterable[MetricSample], p: float, *, operator: Operator = Operator.MORE
) -> Interval:
    """95 % interval of fast_p over all outcomes by resampling problems: samples of
    one problem are not independent.
    """
    clusters = by_problem(outcomes)
    scored = {
        name: [(float(one.fast(p, operator)), 1.0) for one in each]
        for name, each in clusters.items()
    }
    return intervals.cluster_bootstrap(scored)


def speed_of_light_share(floor_us: float, candidate_us: float) -> float:
    """Least possible time over time taken.  Above 1 means a wrong model of the work, or a hack.

    Source: SOL-ExecBench, arXiv 2603.19173."""
    if not (floor_us >= 0 and candidate_us > 0):
        raise ValueError(
            f"expected floor_us ≥ 0 and candidate_us > 0, got {floor_us} and {candidate_us}"
        )
    return floor_us / candidate_us


KEVIN_CORRECT = 0.3
"""Score of a correct answer, to which its speedup is added."""
KEVIN_GAMMA = 0.4
"""Discount of later turns' scores.  Source of both: Kevin, arXiv 2507.11948."""


def kevin_score(*, correct: bool, speedup: float | None) -> float:
    """0.3·C + C·speedup.  Source: Kevin, arXiv 2507.11948."""
    return KEVIN_CORRECT + (speedup or 0.0) if correct else 0.0


@dataclass(frozen=True, kw_only=True)
class Report:
    """One group of outcomes (a level, a run) in the figures that KernelBench reports."""

    name: str
    samples: int
    problems: int
    operator: Operator
    intervals: Mapping[float, Interval]
    """Threshold → 95 % interval of fast_p, problems resampled."""
    fast: Mapping[float, Share]
    """Threshold → fast_p over all samples."""
    pass_at: Mapping[int, Estimate]
    geometric_means: Mapping[GeometricMean, Centre] = field(default_factory=dict)


def report(
    name: str,
    outcomes: Sequence[MetricSample],
    *,
    thresholds: Sequence[float] = FAST_THRESHOLDS,
    operator: Operator = Operator.MORE,
    ks: Sequence[int] = (1,),
) -> Report:
    """The figures of one group."""
    return Report(
        name=name,
        samples=len(outcomes),
        problems=len({outcome.problem for outcome in outcomes}),
        operator=operator,
        intervals={p: fast_p_interval(outcomes, p, operator=operator) for p in thresholds},
        fast=dict(zip(thresholds, fast_ps(outcomes, thresholds, operator=operator), strict=True)),
        pass_at={k: pass_at_k(outcomes, k) for k in ks},
        geometric_means={kind: geometric_mean(outcomes, kind) for kind in GeometricMean},
    )


def _over_problems(
    outcomes: Iterable[MetricSample], k: int, estimate: Callable[[list[MetricSample]], float]
) -> Estimate:
    """Mean of `estimate` over the problems with at least `k` samples."""
    clusters = by_problem(outcomes)
    values = [estimate(each) for each in clusters.values() if len(each) >= k]
    value = math.fsum(values) / len(values) if values else None
    return Estimate(value=value, problems=len(values), left_out=len(clusters) - len(values))
