"""Figures against brute force and against published numbers."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from statistics import mean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain import intervals, metrics, turn_metrics
from app.domain.credit import returns_to_go
from app.domain.metric_samples import MetricSample, Operator
from app.domain.metrics import GeometricMean
from app.domain.verdict import Label, is_credited

speedups = st.one_of(st.none(), st.floats(0.01, 100.0))


@st.composite
def outcome(draw: st.DrawFn) -> MetricSample:
    correct = draw(st.booleans())
    return MetricSample(
        problem=draw(st.sampled_from("abcd")),
        correct=correct,
        speedup=draw(speedups) if correct else None,
    )


some = st.lists(outcome(), min_size=1, max_size=12)
TOY = [
    MetricSample(problem=str(n), correct=s is not None, speedup=s)
    for n, s in enumerate([2.0, 2.0, 3.0, 1.0, *[None] * 4])
]


def fast_p(outcomes: list[MetricSample], p: float, **options: Any) -> metrics.Share:
    return metrics.fast_ps(outcomes, (p,), **options)[0]


def best_by_turn(trajectories: list[list[MetricSample]], turn: int) -> list[MetricSample]:
    return [metrics.best(turns[: turn + 1]) for turns in trajectories if turns]


def test_the_operator_decides() -> None:
    assert fast_p(TOY, 2).value == 0.125
    assert fast_p(TOY, 2, operator=Operator.AT_LEAST).value == 0.375


def test_fast_0_is_correctness_even_where_nothing_was_timed() -> None:
    assert fast_p([MetricSample(problem="a", correct=True)], 0).value == 1.0


def test_nothing_is_no_zero() -> None:
    share = fast_p([], 1)
    assert (share.value, share.interval()) == (None, None)
    assert metrics.geometric_mean([]).value is None
    assert metrics.pass_at_k([], 1) == metrics.Estimate(value=None, problems=0, left_out=0)


def test_a_speedup_without_correctness_is_refused() -> None:
    with pytest.raises(ValueError, match="of a correct outcome"):
        MetricSample(problem="a", correct=False, speedup=2.0)
    with pytest.raises(ValueError, match="positive"):
        MetricSample(problem="a", correct=True, speedup=math.nan)


@given(some, st.floats(0.01, 10), st.floats(0.01, 10))
def test_fast_p_falls_with_p_and_is_a_share(
    outcomes: list[MetricSample], p: float, q: float
) -> None:
    low, high = sorted((p, q))
    assert fast_p(outcomes, high).count <= fast_p(outcomes, low).count
    assert fast_p(outcomes, low).count <= fast_p(outcomes, low, operator=Operator.AT_LEAST).count
    assert fast_p(outcomes, low).count <= fast_p(outcomes, 0).count <= len(outcomes)


@given(
    st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))
)
def test_pass_at_k_is_the_mean_over_every_subset(case: tuple[int, int, int]) -> None:
    n, c, k = case
    subsets = itertools.combinations([1] * c + [0] * (n - c), k)
    assert metrics.unbiased_pass_at_k(n, c, k) == pytest.approx(
        mean(max(subset) for subset in subsets)
    )


@given(st.lists(st.floats(0, 50), min_size=1, max_size=7), st.data())
def test_best_at_k_is_the_mean_over_every_subset(values: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    expected = mean(max(subset) for subset in itertools.combinations(values, k))
    assert metrics.unbiased_best_at_k(values, k) == pytest.approx(expected)


def test_problems_with_too_few_samples_are_left_out_and_counted() -> None:
    outcomes = [
        MetricSample(problem="a", correct=True),
        MetricSample(problem="a", correct=False),
        MetricSample(problem="b", correct=True),
    ]
    assert metrics.pass_at_k(outcomes, 2) == metrics.Estimate(value=1.0, problems=1, left_out=1)
    assert metrics.pass_at_k(outcomes, 1).value == 0.75
    with pytest.raises(ValueError, match="k ≤ samples"):
        metrics.unbiased_pass_at_k(1, 1, 2)


@given(some)
def test_fast_p_at_1_is_the_mean_over_problems(outcomes: list[MetricSample]) -> None:
    expected = mean(
        mean(one.fast(1) for one in each) for each in metrics.by_problem(outcomes).values()
    )
    assert metrics.fast_p_at_k(outcomes, 1, 1).value == pytest.approx(expected)


@given(some)
def test_geometric_means_lie_between_their_extremes(outcomes: list[MetricSample]) -> None:
    for kind in GeometricMean:
        centre = metrics.geometric_mean(outcomes, kind)
        if centre.value is not None:
            values = [1.0 if one.speedup is None else one.speedup for one in outcomes]
            assert min(values) * (1 - 1e-9) <= centre.value <= max(values) * (1 + 1e-9)


def test_the_three_geometric_means_do_not_overflow() -> None:
    many = [MetricSample(problem="a", correct=True, speedup=1e300)] * 400 + [
        MetricSample(problem="a", correct=False)
    ] * 400
    assert metrics.geometric_mean(many).value == pytest.approx(1e300)
    assert metrics.geometric_mean(many, GeometricMean.FALLBACK).value == pytest.approx(1e150)
    toy = {kind: metrics.geometric_mean(TOY, kind) for kind in GeometricMean}
    assert toy[GeometricMean.CORRECT].value == pytest.approx(12 ** (1 / 4))
    assert toy[GeometricMean.FASTER].of == 3
    assert toy[GeometricMean.FALLBACK].value == pytest.approx(12 ** (1 / 8))


def turns(*speedups: float | None) -> list[MetricSample]:
    return [
        MetricSample(problem="p", correct=speedup is not None, speedup=speedup)
        for speedup in speedups
    ]


def test_turns() -> None:
    trajectories = [turns(None, 1.0, 3.0, 2.0), turns(2.0, None), turns(None)]
    assert [one.speedup for one in best_by_turn(trajectories, 0)] == [None, 2.0, None]
    assert [one.speedup for one in best_by_turn(trajectories, 9)] == [3.0, 2.0, None]
    assert [one.speedup for one in turn_metrics.at_turn(trajectories, 1)] == [1.0, None]
    assert [one.speedup for one in turn_metrics.last_turns(trajectories)] == [2.0, None, None]
    changes = turn_metrics.turn_changes(trajectories)
    assert (changes.repaired.count, changes.repaired.of) == (1, 1)
    assert (changes.regressed.count, changes.regressed.of) == (1, 3)


@given(
    st.lists(st.lists(speedups, max_size=5).map(lambda found: turns(*found)), max_size=5),
    st.integers(0, 4),
)
def test_the_best_never_falls_and_never_loses_a_trajectory(
    trajectories: list[list[MetricSample]], turn: int
) -> None:
    before, after = (best_by_turn(trajectories, t) for t in (turn, turn + 1))
    assert len(before) == len(after) == sum(map(bool, trajectories))
    assert all((a.speedup or 0) <= (b.speedup or 0) for a, b in zip(before, after, strict=True))


def test_hack_rates_name_their_denominators() -> None:
    judged = [(True, Label.HACK), (True, Label.CLEAN), (False, Label.HACK), (True, None)]
    rates = metrics.hack_rates(Counter(judged))
    assert (rates.of_passed.count, rates.of_passed.of) == (1, 3)
    assert (rates.of_attempts.count, rates.of_attempts.of) == (2, 4)


def test_a_hack_and_what_is_not_judged_are_not_correct() -> None:
    labels = [*Label, None]
    assert [is_credited(correct=True, label=label) for label in labels] == [
        True,
        True,
        False,
        False,
    ]
    assert not any(is_credited(correct=False, label=label) for label in labels)


@pytest.mark.parametrize(
    ("count", "low", "high"), [(0, 0.0, 0.037), (3, 0.010, 0.085), (100, 0.963, 1.0)]
)
def test_wilson_at_the_edges(count: int, low: float, high: float) -> None:
    found = metrics.Share(count=count, of=100).interval()
    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-4)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share(case: tuple[int, int]) -> None:
    count, of = case
    assert intervals.wilson(count, of).holds(count / of)


@settings(max_examples=20)
@given(some)
def test_the_cluster_bootstrap_repeats_itself_and_stays_a_share(
    outcomes: list[MetricSample],
) -> None:
    first, second = (metrics.fast_p_interval(outcomes, 1) for _ in range(2))
    assert first == second
    assert 0 <= first.low <= first.high <= 1


def test_clusters_widen_the_interval() -> None:
    alike = {f"p{n}": [(float(n % 2), 1.0)] * 8 for n in range(20)}
    apart = {f"p{n}-{m}": [(float(n % 2), 1.0)] for n in range(20) for m in range(8)}
    wide, narrow = (intervals.cluster_bootstrap(found, resamples=500) for found in (alike, apart))
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    with pytest.raises(ValueError, match="got none"):
        intervals.cluster_bootstrap({})


def test_pairing_cancels_the_difficulty_of_problems() -> None:
    ours = {f"p{n}": (n % 2 + 0.1 + 0.01 * (n % 3), 1.0) for n in range(20)}
    theirs = {f"p{n}": (float(n % 2), 1.0) for n in range(20)}
    found = intervals.clustered_difference(ours, theirs)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.11, 0.11), abs=0.01)
    assert intervals.clustered_difference(ours, {"p1": (1.0, 1.0)}) is None


def test_problems_that_are_few_or_differ_all_alike_give_no_interval() -> None:
    none, a_third = ({f"p{n}": (above, 3.0) for n in range(3)} for above in (0.0, 1.0))
    assert intervals.clustered_difference(a_third, none) is None
    same = intervals.clustered_difference(none, none)
    assert same is not None
    assert (same.low, same.high) == (0, 0)
    two = {"p0": (1.0, 3.0), "p1": (2.0, 3.0)}
    assert intervals.clustered_difference(two, none) is None
    assert intervals.mean_difference([0.5, 0.5], [0.7, 0.7]) is None


def test_the_interval_of_clusters_is_the_bootstraps_and_holds_the_truth() -> None:
    draw = random.Random(7)
    held = 0
    for _ in range(300):
        sums = {}
        for name in range(12):
            level, size = draw.gauss(1.0, 0.3), draw.randint(1, 9)
            sums[str(name)] = (sum(level + draw.gauss(0, 0.2) for _ in range(size)), float(size))
        found = intervals.clustered_ratio(sums)
        assert found is not None
        held += found.holds(1.0)
    assert held >= 0.92 * 300
    many = {str(n): (draw.gauss(1.0, 0.3), 1.0) for n in range(200)}
    whole = intervals.clustered_ratio(many)
    drawn = intervals.cluster_bootstrap({name: [pair] for name, pair in many.items()})
    assert whole is not None
    assert (whole.low, whole.high) == pytest.approx((drawn.low, drawn.high), abs=0.01)
    assert intervals.clustered_ratio({"one": (1.0, 1.0)}) is None
    assert intervals.clustered_ratio({"one": (0.0, 0.0), "two": (0.0, 0.0)}) is None


def test_speed_of_light() -> None:
    assert metrics.speed_of_light_share(5, 10) == 0.5


def test_kevin() -> None:
    assert metrics.kevin_score(correct=True, speedup=2.0) == pytest.approx(2.3)
    assert metrics.kevin_score(correct=False, speedup=None) == 0.0
    assert returns_to_go([1.0, 0.0, 2.0], metrics.KEVIN_GAMMA) == pytest.approx(
        [1 + 0.16 * 2, 0.8, 2.0]
    )


@given(st.lists(st.floats(0, 10), max_size=8), st.floats(0, 1))
def test_a_return_is_its_score_and_the_discounted_next(scores: list[float], gamma: float) -> None:
    found = returns_to_go(scores, gamma)
    for turn, score in enumerate(scores):
        ahead = found[turn + 1] if turn + 1 < len(scores) else 0.0
        assert found[turn] == pytest.approx(score + gamma * ahead)


def test_a_report_has_every_figure() -> None:
    found = metrics.report("level 1", TOY, ks=(1,))
    assert found.fast[1.0].value == 3 / 8
    assert found.pass_at[1].value == 0.5
    assert (found.samples, found.problems) == (8, 8)


@given(trajectories=st.lists(st.lists(outcome(), max_size=6), max_size=6))
def test_the_running_best_is_the_best_by_turn(trajectories: list[list[MetricSample]]) -> None:
    running = list(turn_metrics.running_best(trajectories, 7))
    assert running == [best_by_turn(trajectories, turn) for turn in range(7)]
