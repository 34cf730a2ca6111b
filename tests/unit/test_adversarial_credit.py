"""Credit of hostile batches: groups of one, missing and infinite rewards, ties, repeated and empty
turns, γ at its ends, rejection of everything.

References: KernelGYM@3a84417 and verl 0.9.1; their own results are named where they differ.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any, cast

import pytest

from app.domain.credit import (
    METHODS,
    Alone,
    CreditError,
    Dropped,
    MethodOptions,
    Recipe,
    Turn,
    advantages,
    assign,
)
from app.domain.credit.rejection import Mismatch, Profiling, vetoed
from app.domain.credit.rules import Parameters
from app.domain.credit.turns import LARGEST, TokenRatios

PASS_K = {"grpo_passk", "grpo_passk_no_std"}


def turn(trajectory: int, index: int, reward: float | None, **more) -> Turn:
    return Turn(group="p", trajectory=trajectory, index=index, reward=reward, **more)


def values(turns: list[Turn], method: str, **options) -> list[float | None]:
    return [one.advantage for one in advantages(turns, method, MethodOptions(**options))]


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_group_of_one_has_its_score_or_is_refused(method):
    lone = [turn(0, 1, 2.0, tokens=1)]
    if method in PASS_K:
        with pytest.raises(CreditError, match="expected two rows or more, got one"):
            values(lone, method)
    else:
        assert values(lone, method) == [pytest.approx(2.0, rel=1e-5)]
    assert values(lone, method, alone=Alone.ZERO) == [0.0]


@pytest.mark.parametrize("method", sorted(METHODS))
def test_without_any_reward_there_is_no_advantage(method):
    missing = [turn(trajectory, index, None) for trajectory, index in product(range(3), (1, 2))]
    found = advantages(missing, method)
    assert {(one.advantage, one.dropped) for one in found} == {(None, Dropped.MISSING)}
    assert {one.dropped for one in assign(missing, Recipe(method=method))} == {Dropped.MISSING}


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, 1e101, -1e308])
def test_a_reward_that_is_no_number_is_an_error_and_poisons_no_group(reward):
    """verl and KernelGYM: every advantage of the group is NaN."""
    with pytest.raises(CreditError, match="expected a finite reward or None"):
        turn(0, 1, reward)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_largest_rewards_give_finite_advantages(method):
    """red_weight refuses a temperature that does not fit them; a batch of other
    sizes is not given inf.
    """
    rewards = [LARGEST, -LARGEST, LARGEST, 0.5]
    if method == "maxrl":
        rewards = [abs(reward) for reward in rewards]
    huge = [turn(number, 1, reward, tokens=40_000) for number, reward in enumerate(rewards)]
    if method == "red_weight":
        with pytest.raises(CreditError, match="temperature"):
            values(huge, method)
        return
    assert all(math.isfinite(one) for one in values(huge, method))


@pytest.mark.parametrize("method", sorted(METHODS))
def test_equal_rewards_give_finite_advantages_and_nothing_where_the_baseline_is_a_mean(method):
    equal = [turn(trajectory, 1, 0.1 + 0.2, tokens=7) for trajectory in range(5)]
    found = values(equal, method)
    assert all(math.isfinite(one) for one in found)
    if method not in {"returns", "asymre"}:
        assert found == pytest.approx([0.0] * 5, abs=1e-9)
    assert {one.dropped for one in assign(equal)} == {Dropped.UNIFORM}


def test_a_position_taken_twice_is_an_error():
    with pytest.raises(CreditError, match=r"expected distinct turn indices, got \[1, 1\]"):
        advantages([turn(0, 1, 1.0), turn(0, 1, 1.0)], "trloo")


@pytest.mark.parametrize("method", sorted(METHODS))
def test_turns_without_tokens_divide_by_nothing(method):
    """OPO in verl: 0/0."""
    empty = [turn(trajectory, 1, float(trajectory), tokens=0) for trajectory in range(3)]
    assert all(math.isfinite(one) for one in values(empty, method))
    with pytest.raises(CreditError, match="expected no negative tokens, got -1"):
        turn(0, 1, 0.0, tokens=-1)


def test_the_ends_of_gamma():
    line = [turn(0, 1, 1.0), turn(0, 2, None), turn(0, 3, 4.0), turn(1, 1, 3.0), turn(1, 2, 5.0)]
    assert values(line, "returns", gamma=0.0) == [1.0, None, 4.0, 3.0, 5.0]
    assert values(line, "returns", gamma=1.0) == [None, None, 4.0, 8.0, 5.0]
    assert values(line, "trloo", gamma=0.0) == [-2.0, None, 4.0, 2.0, 5.0]
    for gamma in (-1e-9, 1 + 1e-9, math.nan):
        with pytest.raises(CreditError, match="gamma: expected 0 to 1"):
            values(line, "trloo", gamma=gamma)


@pytest.mark.parametrize("in_baseline", [True, False])
def test_rejection_of_every_turn_leaves_figures_and_no_turn(in_baseline):
    far = TokenRatios(log_sum=-900.0, tokens=9, log_least=-100.0)
    turns = [turn(0, 1, 1.0, ratios=far), turn(1, 1, 2.0, ratios=far)]
    found = assign(turns, Recipe(mismatch=Mismatch(), rejected_in_baseline=in_baseline))
    assert [one.dropped for one in found] == [Dropped.MISMATCH] * 2
    assert [one.advantage for one in found] == ([-1.0, 1.0] if in_baseline else [None, None])
    unknown = TokenRatios(log_sum=math.nan, tokens=9, log_least=math.nan)
    assert vetoed(turn(0, 1, 1.0, ratios=unknown), Mismatch())
    [one] = assign([turn(0, 1, 1.0, ratios=unknown)], Recipe(mismatch=Mismatch(), least_std=None))
    assert one.dropped is Dropped.MISMATCH


@pytest.mark.parametrize("coverage", [None, 0.0, math.nan])
def test_profiles_that_reject_every_correct_turn_leave_the_wrong_ones(coverage):
    turns = [
        turn(0, 1, 2.0, correct=True, coverage=coverage),
        turn(1, 1, 0.0),
        turn(2, 1, 3.0, correct=True),
    ]
    found = assign(turns, Recipe(profiling=Profiling()))
    assert [one.dropped for one in found] == [Dropped.COVERAGE, None, Dropped.COVERAGE]
    assert found[1].advantage == -2.5


def test_parameters_and_scores_that_turn_a_method_round_are_errors():
    """SkyRL's maxrl divides by a negative mean: the worst answer is pushed up.
    Trinity-RFT's weights are infinite.
    """
    scored = [turn(0, 1, -1.0), turn(1, 1, -3.0)]
    with pytest.raises(CreditError, match=r"expected scores with a mean of 0 or more, got -2\.0"):
        values(scored, "maxrl")
    with pytest.raises(CreditError, match="temperature: expected one that fits the scores"):
        values(scored, "red_weight", parameters=Parameters(temperature=1e-4))
    for given in cast(
        "list[dict[str, Any]]", [{"tau": 0.0}, {"temperature": -1.0}, {"epsilon": -1.0}]
    ):
        with pytest.raises(CreditError, match=next(iter(given))):
            Parameters(**given)
    lone_winner = [turn(0, 1, 1.0), turn(1, 1, 0.0), turn(2, 1, 0.0)]
    assert values(lone_winner, "erloo_normalised")[0] == pytest.approx(1e8)  # KernelGYM's value
