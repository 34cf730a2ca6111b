"""Credit assignment: figures of the references' own code, missing rewards, filters
and their order.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from app.domain import credit
from app.domain.credit import (
    Alone,
    CreditError,
    Dropped,
    MethodOptions,
    Recipe,
    Shaping,
    TokenRatios,
    Turn,
    pools,
    rejection,
    rules,
    tokens,
)
from app.domain.credit.methods import METHODS
from app.domain.dataset import profiling_rejection

VECTORS = json.loads((Path(__file__).parent / "credit_vectors.json").read_text())
NEAR = 1e-6


def turns_of(index: int) -> list[Turn]:
    fields = ("group", "trajectory", "index", "reward", "tokens", "trainable")
    return [Turn(**dict(zip(fields, row, strict=True))) for row in VECTORS["turns"][index]]


def named(kind: str) -> list:
    return [
        pytest.param(one, id=f"{one.get('method', kind)}-{at}")
        for at, one in enumerate(VECTORS[kind])
    ]


def options_of(case: dict) -> MethodOptions:
    given = dict(case["options"])
    if "shaping" in given:
        given["shaping"] = Shaping(given["shaping"])
    if "alone" in given:
        given["alone"] = Alone(given["alone"])
    return MethodOptions(**given, parameters=rules.Parameters(**case.get("parameters", {})))


@pytest.mark.parametrize("case", named("cases"))
def test_advantages_are_those_of_the_reference(case):
    got = [
        one.advantage
        for one in credit.advantages(turns_of(case["turns"]), case["method"], options_of(case))
    ]
    expected = case["expected"]
    if (
        case.get("compare") == "multiset"
    ):  # the rows that are dropped are drawn by another generator
        got, expected = sorted(got), sorted(expected)
    assert got == [value if value is None else pytest.approx(value, abs=NEAR) for value in expected]


def test_every_method_has_a_reference_figure():
    covered = {case["method"] for case in VECTORS["cases"]}
    assert set(METHODS) - covered == {
        "returns",
        "red_weight",
    }  # no baseline; a product of tested parts


@pytest.mark.parametrize("case", named("tokens"))
def test_token_advantages_are_those_of_verl(case):
    got = tokens.reinforce_plus_plus(turns_of(case["turns"]), case["gamma"])
    assert got == [pytest.approx(values, abs=NEAR) for values in case["expected"]]


@pytest.mark.parametrize("case", named("ada"))
def test_pool_advantages_are_those_of_reinforce_ada(case):
    pool = pools.Pool.of(case["pool"])
    got = pools.advantages(pool, case["kept"], whole_pool=case["whole_pool"], scaled=case["scaled"])
    assert got == pytest.approx(case["expected"], abs=NEAR)


@pytest.mark.parametrize("case", named("down"))
def test_down_sampling_is_that_of_reinforce_ada(case):
    pool = pools.Pool.of(case["pool"])
    assert pools.down_sample(pool, case["keep"]) == case["expected"]
    assert pools.suffices(pool, pools.Exit(case["choice"]), case["keep"]) == case["suffices"]


@pytest.mark.parametrize("case", named("prs"))
def test_keep_chances_are_those_of_kernelgym(case):
    profiling = rejection.Profiling(
        tau=case["tau"],
        scale=case["scale"],
        ratio=profiling_rejection.Ratio(case["coverage_of"]),
        least_speedup=case["least_speedup"],
    )
    for coverage, correct, speedup, kept, expected in zip(
        *(case[name] for name in ("coverage", "correct", "speedup", "kept", "expected")),
        strict=True,
    ):
        members = [
            Turn(
                group=0,
                trajectory=0,
                index=at,
                reward=1.0,
                coverage=one[0],
                correct=one[1],
                speedup=one[2],
            )
            for at, one in enumerate(zip(coverage, correct, speedup, strict=True))
        ]
        assert rejection.keep_chances(members, kept, profiling) == pytest.approx(expected, abs=NEAR)


@pytest.mark.parametrize("case", named("mrs"))
def test_mismatch_rejection_is_that_of_kernelgym(case):
    mismatch = rejection.Mismatch(
        level=rejection.Level(case["level"]), lower=1 / case["upper"], upper=case["upper"]
    )
    for start in range(0, len(case["ratios"]), case["max_turns"]):
        rows = case["ratios"][start : start + case["max_turns"]]
        members = [
            Turn(
                group=0,
                trajectory=0,
                index=at,
                reward=0.0,
                ratios=TokenRatios(log_sum=a, tokens=b, log_least=c),
            )
            for at, (a, b, c) in enumerate(rows)
        ]
        out = rejection.mismatched(members, mismatch)
        keep = case["keep"][start : start + case["max_turns"]]
        assert [not gone for gone, kept in zip(out, keep, strict=True) if kept is not None] == [
            kept for kept in keep if kept is not None
        ]
        veto = case["veto"][start : start + case["max_turns"]]
        assert [rejection.vetoed(turn, mismatch) for turn in members] == veto


def line(*rewards: float | None, group: str = "p", name: str = "t", **more) -> list[Turn]:
    return [
        Turn(group=group, trajectory=name, index=at, reward=reward, **more)
        for at, reward in enumerate(rewards, start=1)
    ]


def figures(turns: list[Turn], method: str, **more) -> list[float | None]:
    return [one.advantage for one in credit.advantages(turns, method, MethodOptions(**more))]


class TestReturns:
    def test_a_missing_reward_takes_along_the_returns_that_need_it(self):
        assert credit.returns_to_go([1.0, None, 2.0], 1.0) == [None, None, 2.0]
        assert credit.returns_to_go([1.0, None, 2.0], 0.0) == [1.0, None, 2.0]

    def test_discount(self):
        assert credit.returns_to_go([1.0, 2.0, 4.0], 0.5) == [3.0, 4.0, 4.0]
        with pytest.raises(CreditError, match=r"expected 0 to 1, got 1\.5"):
            credit.returns_to_go([1.0], 1.5)

    def test_shaping(self):
        assert credit.shaped([0.0, 1.0, 3.0], 0.9, Shaping.DIFFERENCE) == [0.0, 1.0, 2.0]
        assert credit.shaped([0.0, 1.0, 3.0], 0.9, Shaping.UNBIASED) == pytest.approx(
            [0.0, 1.0, -0.7]
        )
        assert credit.shaped([1.0, None, 3.0], 0.9, Shaping.DIFFERENCE) == [1.0, None, None]

    def test_unbiased_shaping_scales_the_return_of_a_trajectory(self):
        rewards = [0.5, 2.0, 1.0]
        plain = credit.returns_to_go(rewards, 0.9)[0]
        assert credit.returns_to_go(credit.shaped(rewards, 0.9, Shaping.UNBIASED), 0.9)[
            0
        ] == pytest.approx(0.1 * plain)


class TestMissing:
    @pytest.mark.parametrize("method", sorted(set(METHODS) - {"returns"}))
    def test_a_missing_reward_changes_no_other_advantage(self, method):
        known = line(1.0, name="a") + line(0.0, name="b") + line(3.0, name="c")
        got = figures(known + line(None, name="d"), method)
        assert got == [*figures(known, method), None]

    def test_it_is_named(self):
        (one,) = credit.advantages(line(None), "trloo")
        assert (one.dropped, one.score, one.advantage) == (Dropped.MISSING, None, None)

    def test_later_turns_keep_their_credit(self):
        turns = line(None, 1.0, name="a") + line(2.0, 4.0, name="b")
        assert figures(turns, "trloo") == [None, -3.0, 6.0, 3.0]


class TestAlone:
    def test_a_lone_turn_gets_its_return_or_nothing(self):
        turns = line(1.0, 2.0, name="a") + line(0.0, name="b")
        assert figures(turns, "trloo") == [3.0, 2.0, -3.0]
        assert figures(turns, "trloo", alone=Alone.ZERO) == [3.0, 0.0, -3.0]

    def test_pass_at_k_refuses_it(self):
        with pytest.raises(CreditError, match="expected two rows or more, got one"):
            figures(line(1.0), "grpo_passk")
        assert figures(line(1.0), "grpo_passk", alone=Alone.ZERO) == [0.0]


class TestInput:
    def test_an_unknown_method_is_an_error(self):
        with pytest.raises(CreditError, match="unknown method 'gropo'; expected one of trloo"):
            figures(line(1.0), "gropo")

    def test_a_position_taken_twice_is_an_error(self):
        with pytest.raises(CreditError, match=r"expected distinct turn indices, got \[1, 1\]"):
            figures([*line(1.0), *line(2.0)], "trloo")

    def test_order_of_turns_does_not_matter(self):
        turns = line(1.0, 2.0, name="a") + line(0.0, 5.0, name="b")
        assert figures(turns[::-1], "trloo") == figures(turns, "trloo")[::-1]

    def test_one_advantage_for_all_turns_of_a_trajectory(self):
        turns = line(1.0, 2.0, name="a") + line(1.0, name="b")
        assert figures(turns, "grpo_no_std") == [1.0, 1.0, -1.0]


class TestRed:
    def test_no_more_rows_below_the_mean_than_above_stay(self):
        rows = [
            rules.GroupScore(score=score, tokens=1, key=str(at))
            for at, score in enumerate([9.0, 0.0, 1.0, 0.5, 2.0])
        ]
        kept = rules.kept_by_balance(rows, seed=3)
        assert 0 in kept
        assert len(kept) == 2
        assert rules.kept_by_balance(rows, seed=3) == kept
        assert {tuple(rules.kept_by_balance(rows, seed=seed)) for seed in range(40)} == {
            (0, 1),
            (0, 2),
            (0, 3),
            (0, 4),
        }

    def test_weight(self):
        assert figures(line(2.0, name="a") + line(0.0, name="b"), "red_weight") == pytest.approx(
            [math.e, -math.exp(-1)]
        )


class TestPools:
    def test_missing_rewards_are_no_samples(self):
        pool = pools.Pool.of([1.0, None, 0.0, 0.7])
        assert (pool.mean, pool.positive, pool.negative) == (1 / 3, [0], [1, 2])

    def test_a_pool_of_one_has_no_statistics(self):
        assert (pools.Pool.of([1.0]).mean, pools.Pool.of([1.0]).std) == (0.0, 1.0)

    def test_keep_must_be_positive(self):
        with pytest.raises(CreditError, match="expected 1 or more, got 0"):
            pools.down_sample(pools.Pool.of([1.0]), 0)


class TestRecipe:
    def test_a_void_turn_is_masked_and_takes_no_reward_from_earlier_ones(self):
        assert rejection.void([0.0, 1.0, 0.0, -1.0, 2.0]) == [False, False, True, True, False]
        turns = line(1.0, -1.0, name="a") + line(0.0, 2.0, name="b")
        got = credit.assign(turns)
        assert [one.dropped for one in got] == [None, Dropped.VOID, None, None]
        assert [one.advantage for one in got] == [-1.0, None, 1.0, 2.0]
        kept = credit.assign(turns, Recipe(void_turns=False))
        assert [one.advantage for one in kept] == [-2.0, -3.0, 2.0, 3.0]

    def test_prompts_with_equal_last_rewards_are_left_out(self):
        turns = line(0.0, 1.0, name="a") + line(5.0, 1.0, name="b") + line(0.0, group="q", name="a")
        got = credit.assign(turns)
        assert [one.dropped for one in got] == [Dropped.UNIFORM] * 4 + [None]

    def test_small_groups_are_left_out_and_missing_trajectories_do_not_count(self):
        turns = line(0.0, name="a") + line(1.0, name="b") + line(None, name="c")
        got = credit.assign(turns, Recipe(least_group=3))
        assert [one.dropped for one in got] == [Dropped.SMALL] * 3
        assert credit.assign(turns, Recipe(least_group=2))[0].advantage == -1.0

    def test_rejected_turns_stay_in_the_baseline_unless_asked_otherwise(self):
        far = TokenRatios(log_sum=1.0, tokens=10, log_least=0.0)
        near = TokenRatios(log_sum=0.0, tokens=10, log_least=0.0)
        turns = (
            line(4.0, name="a", ratios=far)
            + line(0.0, name="b", ratios=near)
            + line(1.0, name="c", ratios=near)
        )
        got = credit.assign(turns, Recipe(mismatch=rejection.Mismatch()))
        assert [one.dropped for one in got] == [Dropped.MISMATCH, None, None]
        assert [one.advantage for one in got] == [3.5, -2.5, -1.0]
        apart = credit.assign(
            turns, Recipe(mismatch=rejection.Mismatch(), rejected_in_baseline=False)
        )
        assert [one.advantage for one in apart] == [None, -1.0, 1.0]

    def test_a_rejected_turn_outside_the_baseline_still_counts_in_earlier_returns(self):
        good: dict[str, Any] = {"correct": True, "coverage": 1.0}
        turns = [
            *line(1.0, name="a", **good),
            Turn(group="p", trajectory="a", index=2, reward=2.0, correct=True, coverage=0.0),
            *line(0.0, 1.0, name="b", **good),
        ]
        got = credit.assign(
            turns, Recipe(profiling=rejection.Profiling(), rejected_in_baseline=False)
        )
        assert [one.dropped for one in got] == [None, Dropped.COVERAGE, None, None]
        assert [one.score for one in got] == [3.0, 2.0, 1.0, 1.0]
        assert [one.advantage for one in got] == [2.0, None, -2.0, 1.0]

    def test_geometric_mean_passes_while_the_veto_fires(self):
        ratios = TokenRatios(log_sum=0.0, tokens=1000, log_least=math.log(0.9e-4))
        members = line(1.0, ratios=ratios)
        mismatch = rejection.Mismatch()
        assert rejection.mismatched(members, mismatch) == [False]
        assert rejection.vetoed(members[0], mismatch)
        got = credit.assign(
            [
                *members,
                *line(0.0, name="b", ratios=TokenRatios(log_sum=0.0, tokens=1, log_least=0.0)),
            ],
            Recipe(mismatch=mismatch),
        )
        assert [one.dropped for one in got] == [Dropped.VETO, None]

    def test_the_veto_is_strict(self):
        ratios = TokenRatios(log_sum=0.0, tokens=1, log_least=math.log(1e-4))
        assert not rejection.vetoed(line(1.0, ratios=ratios)[0], rejection.Mismatch())

    def test_wrong_turns_are_never_rejected_by_coverage(self):
        turns = line(0.0, name="a", coverage=0.0) + line(2.0, name="b", coverage=0.0, correct=True)
        got = credit.assign(turns, Recipe(profiling=rejection.Profiling()))
        assert [one.dropped for one in got] == [None, Dropped.COVERAGE]

    def test_draws_depend_on_seed_and_name_alone(self):
        members = [*line(1.0, 1.0, name="a", coverage=0.35, correct=True)]
        one = rejection.drawn_out(members, [True, True], rejection.Profiling(seed=1))
        assert one == rejection.drawn_out(members, [True, True], rejection.Profiling(seed=1))
        together = [
            rejection.drawn_out(
                members,
                [True, True],
                rejection.Profiling(seed=seed, draw=profiling_rejection.Draw.TRAJECTORY),
            )
            for seed in range(200)
        ]
        assert {tuple(each) for each in together} == {(True, True), (False, False)}
        assert sum(each[0] for each in together) == pytest.approx(100, abs=30)

    def test_unrecorded_ratios_are_an_error(self):
        with pytest.raises(CreditError, match="expected recorded log probabilities, got none"):
            credit.assign(line(1.0), Recipe(mismatch=rejection.Mismatch()))

    @pytest.mark.parametrize(("lower", "upper"), [(2.0, 1.0), (0.0, 1.0), (0.5, 0.9), (1.1, 1.2)])
    def test_bounds_have_an_agreement_between_them(self, lower, upper):
        with pytest.raises(CreditError, match="expected 0 < lower <= 1 <= upper"):
            rejection.Mismatch(lower=lower, upper=upper)

    def test_masked_turns_have_no_reward_and_no_advantage(self):
        turns = [
            *line(1.0, name="a"),
            Turn(group="p", trajectory="b", index=1, reward=9.0, trainable=False),
        ]
        got = credit.assign(turns, Recipe(least_std=None))
        assert [(one.advantage, one.dropped) for one in got] == [
            (1.0, None),
            (None, Dropped.MASKED),
        ]
