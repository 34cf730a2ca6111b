"""Trajectories with turns that were measured in several ways: their speedups are
never compared or added.
"""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.dataset import attempt_rewards, sampling
from app.domain.dataset.attempt import Attempt
from app.domain.dataset.selection import Kind, Spec, Turns
from app.domain.trajectory import NO_CODE
from tests.unit.test_selection import attempt

CPU: dict[str, Any] = {"device_class": "cpu"}
MIXED = [
    attempt(0, 40.0, **CPU),
    attempt(1, 1.1),
    attempt(2),
    attempt(3, 1.4),
    attempt(4, 90.0, **CPU),
]
"""Interpreted turns between turns on a GPU."""


@pytest.mark.parametrize(
    ("rule", "taken"),
    [
        (Turns.BEST, [3, 4]),
        (Turns.IMPROVING, [0, 1, 3, 4]),
        (Turns.ALL_UNTIL_BEST, [0, 1, 3, 4]),
        (Turns.FIRST_CORRECT, [0]),
    ],
)
def test_turns_are_ranked_among_those_of_one_device(rule: Turns, taken: list[int]) -> None:
    eligible = {one.place for one in MIXED if one.correct}
    found = sampling.of_trajectory(MIXED, eligible, Spec(turns=rule), Kind.TURN)
    assert [one.place for one in found] == taken


def test_turns_after_the_best_of_their_device_are_left_out() -> None:
    turns = [*MIXED, attempt(5, 1.2), attempt(6, 50.0, **CPU)]
    eligible = {one.place for one in turns if one.correct}
    found = sampling.of_trajectory(turns, eligible, Spec(turns=Turns.ALL_UNTIL_BEST), Kind.TURN)
    assert [one.place for one in found] == [0, 1, 3, 4]


def test_an_interpreted_turn_does_not_hide_an_improvement_on_a_gpu() -> None:
    eligible = {1, 3}
    found = sampling.of_trajectory(MIXED, eligible, Spec(turns=Turns.IMPROVING), Kind.TURN)
    assert [one.place for one in found] == [1, 3]


def returns(turns: list[Attempt], name: str = attempt_rewards.KEVIN) -> list[float | None]:
    return attempt_rewards.returns(turns, 1.0, name)


@pytest.mark.parametrize("name", ["kevin", "dr_kernel"])
def test_a_return_adds_no_speedups_of_two_devices(name: str) -> None:
    assert [value is None for value in returns(MIXED, name)] == [True, True, True, True, False]
    assert [value is None for value in returns(MIXED[:4], name)] == [True, False, False, False]


def test_failures_have_the_same_reward_on_every_device() -> None:
    wrong, silent = attempt(1, **CPU), attempt(2, device_class=None, status=NO_CODE)
    assert returns([attempt(0, 1.0), wrong, silent, attempt(3, 2.0)]) == pytest.approx(
        [3.6, 2.3, 2.3, 2.3]
    )


def test_a_last_turn_without_an_evaluation_is_the_final_one() -> None:
    turns = [attempt(0, 1.0, last_turn=2), attempt(1, 2.0, last_turn=2)]
    assert sampling.of_trajectory(turns, {0, 1}, Spec(turns=Turns.FINAL), Kind.TURN) == []
    ended = [one._replace(last_turn=1) for one in turns]
    assert sampling.of_trajectory(ended, {0, 1}, Spec(turns=Turns.FINAL), Kind.TURN) == ended[1:]
