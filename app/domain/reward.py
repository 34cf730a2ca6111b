"""JUDGE: rewards as pure functions of stored measurements: recomputable, named, never stored as truth.

    score("calculate_reward_speedup:coverage_weight=0.5", result)

Five by name: Dr. Kernel's equations 1 and 8 (arXiv 2602.05885), and the three functions of KernelGYM's reward client
under the names that its configuration files use.  C is 1 for a candidate that compiled, is correct and is no hack.

One deliberate difference from KernelGYM's client: the speedup counts only where C is 1, as in the paper.  There it is
the server that sends a speedup of 0 for everything else, so the numbers are the same.

A result that says nothing about the candidate (an infrastructure fault, a problem that cannot be measured, a job that
is not over) has no reward: None, never zero."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from app.domain.evaluation import Status
from app.domain.verdict import Label

DEFAULT = "dr_kernel_pr"
"""The reward that is the score where nothing else is asked for."""

FAILED = -1.0
"""Reward on KernelGYM's ladder for unjudged attempts and for hacks."""
LADDER = ((3.0, 1.0), (2.0, 0.8), (1.5, 0.6), (1.2, 0.4), (1.0, 0.2))
"""(least speedup, reward) of `calculate_reward_like_kernel`."""

COVERAGES = ("time_coverage", "number_coverage")


class UnknownRewardError(ValueError):
    """No reward of that name, or an option that it does not have."""


@dataclass(frozen=True, kw_only=True)
class Measures:
    """Inputs of the rewards."""

    completed: bool
    """True if the candidate ended by itself: it loaded, and was not stopped by the clock.  KernelGYM's `status`."""
    compiled: bool
    correct: bool
    hacked: bool
    """The verdict says hack: KernelGYM's `decoy_kernel`, with more ways to be one."""
    speedup: float | None = None
    coverage_time: float | None = None
    """PR of eq. 7: share of kernel time in kernels that the candidate brought."""
    coverage_count: float | None = None
    """Share of own kernels by launches."""

    @property
    def credited(self) -> bool:
        """C of the paper."""
        return self.compiled and self.correct and not self.hacked


@dataclass(frozen=True, kw_only=True)
class Options:
    """Weights, caps and penalties, with the defaults of KernelGYM's `kernel_trainer.yaml`."""

    correct_weight: float = 0.5
    performance_weight: float = 0.5
    upper_bound: float = 3.0
    """Speedups above it count as this much; the paper's cap, too."""
    lower_bound: float = 0.0
    """Speedups below it count as 0: dropped, not raised to the bound."""
    speedup_eps: float = 0.01
    """`weighted` pays for a speedup of at least 1 plus this."""
    penalty_score: float = 0.0
    compilation_fail: float = -0.5
    correctness_fail: float = -0.3
    perf_degrade: float = -0.1
    coverage_weight: float = 0.0
    """Weight of the coverage reward; 0 is KernelGYM's `coverage_reward.enable: false`, its RL scripts use 0.5."""
    coverage: str = "time_coverage"
    """`time_coverage` or `number_coverage`."""

    def __post_init__(self) -> None:
        if self.coverage not in COVERAGES:
            raise UnknownRewardError(f"coverage: expected one of {', '.join(COVERAGES)}, got {self.coverage!r}")
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise UnknownRewardError(f"{each.name}: expected a finite number, got {value}")
        if self.lower_bound > self.upper_bound:
            raise UnknownRewardError(f"lower_bound {self.lower_bound} is above upper_bound {self.upper_bound}")


STANDARD = Options()

Reward = Callable[[Measures, Options], float]
Parts = dict[str, float]
"""Name of a term → its contribution; a reward is the sum of its parts."""


def dr_kernel_parts(measures: Measures, options: Options = STANDARD) -> Parts:
    """C + C·min(speedup, cap).  In [0, 4] with the cap of 3.  Source: Dr. Kernel, eq. 1."""
    if not measures.credited:
        return {"not credited": 0.0}
    return {"correct": 1.0, "speedup": min(measures.speedup or 0.0, options.upper_bound)}


def dr_kernel_pr_parts(measures: Measures, options: Options = STANDARD) -> Parts:
    """C + C·min(speedup, cap) + C·PR.  In [0, 5] with the cap of 3.  Source: Dr. Kernel, eq. 8."""
    coverage = {"coverage": _share(measures.coverage_time)} if measures.credited else {}
    return dr_kernel_parts(measures, options) | coverage


def calculate_reward_speedup_parts(measures: Measures, options: Options = STANDARD) -> Parts:
    """w_c·C + w_p·clip(speedup) + w_v·coverage, or the penalty for a failure or a hack.

    With the weights of KernelGYM's RL scripts (½, ½, ½) it is half of eq. 8.  Source: its reward_client.py, :445."""
    if not measures.completed or measures.hacked:
        return {"penalty": options.penalty_score}
    speedup = min(measures.speedup or 0.0, options.upper_bound)
    return _weighed(measures, options, speedup if speedup >= options.lower_bound else 0.0)


def calculate_reward_weighted_parts(measures: Measures, options: Options = STANDARD) -> Parts:
    """w_c·C + w_p·[speedup ≥ 1 + ε] + w_v·coverage, or the penalty.  Source: KernelGYM's reward_client.py, :355."""
    if not measures.completed or measures.hacked:
        return {"penalty": options.penalty_score}
    return _weighed(measures, options, float((measures.speedup or 0.0) >= 1.0 + options.speedup_eps))


def calculate_reward_like_kernel_parts(measures: Measures, options: Options = STANDARD) -> Parts:
    """A ladder from −1 to 1.  Source: KernelGYM's reward_client.py, :234."""
    if not measures.completed or measures.hacked:
        return {"failed or hack": FAILED}
    if not measures.compiled:
        return {"compile error": options.compilation_fail}
    if not measures.correct:
        return {"not correct": options.correctness_fail}
    speedup = measures.speedup or 0.0
    for least, reward in LADDER:
        if speedup >= least:
            return {f"speedup ≥ {least:g}×": reward}
    return {"slower than the reference": options.perf_degrade}


PARTS: dict[str, Callable[[Measures, Options], Parts]] = {
    "dr_kernel": dr_kernel_parts,
    "dr_kernel_pr": dr_kernel_pr_parts,
    "calculate_reward_speedup": calculate_reward_speedup_parts,
    "calculate_reward_weighted": calculate_reward_weighted_parts,
    "calculate_reward_like_kernel": calculate_reward_like_kernel_parts,
}


def _total(name: str) -> Reward:
    def reward(measures: Measures, options: Options = STANDARD) -> float:
        return float(sum(PARTS[name](measures, options).values()))

    reward.__doc__ = PARTS[name].__doc__
    return reward


REWARDS: dict[str, Reward] = {name: _total(name) for name in PARTS}

NO_CODE: Mapping[str, object] = {
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
PATTERN = rf"^({'|'.join(REWARDS)})(:({_CHOSEN})(,({_CHOSEN}))*)?$"
"""A name, and options after a colon.  `parse` reports the error in a text that does not match, and takes numbers in
forms that only Python knows."""


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
    return {} if found is None else {name: reward(found, STANDARD) for name, reward in REWARDS.items()}


def score(reward: str, result: Mapping[str, Any]) -> float | None:
    """The reward that `reward` names, of a result; None where there is none.  Raises UnknownRewardError.

    `reward` is a name, or a name with options: `calculate_reward_speedup:coverage_weight=0.5,upper_bound=2`."""
    function, options = parse(reward)
    found = measures(result)
    return None if found is None else function(found, options)


def parts(reward: str, result: Mapping[str, Any]) -> Parts | None:
    """The terms that add up to the score that `reward` names; None where there is none.  Raises UnknownRewardError."""
    _, options = parse(reward)
    found = measures(result)
    return None if found is None else PARTS[reward.partition(":")[0]](found, options)


@lru_cache(maxsize=64)
def parse(text: str) -> tuple[Reward, Options]:
    """The function and the options that a text names, kept because a run's page asks for each of its turns.  Raises
    UnknownRewardError."""
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
        raise UnknownRewardError(f"unknown reward option {name.strip()!r}; expected one of {expected}")
    if isinstance(default, str):
        return name.strip(), text.strip()
    try:
        return name.strip(), float(text)
    except ValueError:
        raise UnknownRewardError(f"{name.strip()}: expected a number, got {text!r}") from None


def _weighed(measures: Measures, options: Options, performance: float) -> Parts:
    if not measures.credited:
        return {"not credited": 0.0}
    kinds = {"time_coverage": measures.coverage_time, "number_coverage": measures.coverage_count}
    return {
        "correct": options.correct_weight,
        "speedup": options.performance_weight * performance,
        "coverage": options.coverage_weight * _share(kinds[options.coverage]),
    }


def _share(coverage: float | None) -> float:
    """A coverage that was measured, within [0, 1]: nothing measured is nothing covered."""
    return min(max(coverage or 0.0, 0.0), 1.0)
