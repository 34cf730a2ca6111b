"""JUDGE: scores: rewards of results, recomputable from stored measurements and never
stored as truth.

    score("calculate_reward_speedup:coverage_weight=0.5", result)

The rewards themselves are plug-ins (app.domain.rewards).  A result that says nothing about the
candidate (an infrastructure fault, a problem that cannot be measured, a job that is not over)
has no reward: None, never zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any

from app.domain.evaluation import Status
from app.domain.rewards import PARTS
from app.domain.rewards.base import (
    COVERAGES,
    STANDARD,
    Measures,
    Options,
    Parts,
    UnknownRewardError,
)
from app.domain.verdict import Label

__all__ = ["COVERAGES", "PARTS", "STANDARD", "Measures", "Options", "Parts", "UnknownRewardError"]

DEFAULT = "dr_kernel_pr"
"""The reward that is the score where nothing else is asked for."""

Reward = Callable[[Measures, Options], float]


def _total(name: str) -> Reward:
    def reward(measures: Measures, options: Options = STANDARD) -> float:
        return float(sum(PARTS[name](measures, options).values()))

    reward.__doc__ = PARTS[name].__doc__
    return reward


REWARDS: dict[str, Reward] = {name: _total(name) for name in PARTS}

WITHOUT_CODE: Mapping[str, object] = {
    "valid": True,
    "status": Status.COMPILE_ERROR,
    "compiled": False,
    "correct": False,
    "verdict": Label.CLEAN,
    "speedup": None,
    "coverage_time": None,
    "coverage_count": None,
}
"""Result of an answer without code: the model's own failure, like code that does not compile."""


_NUMBER = r"-?([0-9]{1,9}\.?[0-9]{0,17}|\.[0-9]{1,17})([eE][+-]?[0-9]{1,2})?"
_CHOSEN = "|".join(
    f"{each.name}={_NUMBER if isinstance(each.default, float) else '(' + '|'.join(COVERAGES) + ')'}"
    for each in fields(Options)
)
PATTERN = rf"^({'|'.join(map(re.escape, REWARDS))})(:({_CHOSEN})(,({_CHOSEN}))*)?$"
"""A name, and options after a colon.  `parse` reports the error in a text that does not match, and
takes numbers in forms that only Python knows.
"""


def measures(result: Mapping[str, Any]) -> Measures | None:
    """Measures in a result (app.domain.result); None where it says nothing about the candidate."""
    if not result["valid"]:
        return None
    return Measures(
        completed=completed(result["status"]),
        compiled=result["compiled"],
        correct=result["correct"],
        hacked=result["verdict"] == Label.HACK,
        speedup=result["speedup"],
        coverage_time=result["coverage_time"],
        coverage_count=result["coverage_count"],
    )


def completed(status: str) -> bool:
    """True if an evaluation of that status came to an end of its own."""
    return status not in {Status.COMPILE_ERROR, Status.TIMEOUT}


def every(result: Mapping[str, Any]) -> dict[str, float]:
    """Each reward of a result by name, with the standard options; empty where there is none."""
    found = measures(result)
    return (
        {} if found is None else {name: reward(found, STANDARD) for name, reward in REWARDS.items()}
    )


def score(reward: str, result: Mapping[str, Any]) -> float | None:
    """The reward that `reward` names, of a result; None where there is none.  Raises
    UnknownRewardError.

    `reward` is a name, or a name with options:
    `calculate_reward_speedup:coverage_weight=0.5,upper_bound=2`.
    """
    function, options = parse(reward)
    found = measures(result)
    return None if found is None else function(found, options)


def parts(reward: str, result: Mapping[str, Any]) -> Parts | None:
    """The terms that add up to the score that `reward` names; None where there is
    none.  Raises UnknownRewardError.
    """
    _, options = parse(reward)
    found = measures(result)
    return None if found is None else PARTS[reward.partition(":")[0]](found, options)


@lru_cache(maxsize=64)
def parse(text: str) -> tuple[Reward, Options]:
    """The function and the options that a text names, kept because a run's page asks for each of
    its turns.  Raises UnknownRewardError.
    """
    name, _, listed = text.partition(":")
    if name not in REWARDS:
        raise UnknownRewardError(f"unknown reward {name!r}; expected one of {', '.join(REWARDS)}")
    values = dict(_option(item) for item in listed.split(",")) if listed else {}
    return REWARDS[name], Options(**values)  # type: ignore[arg-type]  # each was parsed by the type of its default


def _option(item: str) -> tuple[str, float | str]:
    name, _, text = item.partition("=")
    default = {each.name: each.default for each in fields(Options)}.get(name.strip())
    if default is None:
        expected = ", ".join(each.name for each in fields(Options))
        raise UnknownRewardError(
            f"unknown reward option {name.strip()!r}; expected one of {expected}"
        )
    if isinstance(default, str):
        return name.strip(), text.strip()
    try:
        return name.strip(), float(text)
    except ValueError:
        raise UnknownRewardError(f"{name.strip()}: expected a number, got {text!r}") from None
