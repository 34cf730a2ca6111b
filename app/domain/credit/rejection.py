"""Turns left out of training: void turns, uniform groups, mismatch rejection (MRS),
veto, profiling-based (PRS).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import stdev

from app.domain import keyed_random
from app.domain.credit.turns import CreditError, TokenRatios, Turn, by_trajectory
from app.domain.dataset import profiling_rejection

LEAST_STD = 1e-3
"""Groups are left out if their last rewards have a smaller unbiased standard
deviation (KernelGYM's unified_filter).
"""
LEAST_LOG = -20.0
MOST_LOG = 20.0
"""Log ratios are clamped to these before exp, as in KernelGYM and SkyRL."""


def void(rewards: Sequence[float | None]) -> list[bool]:
    """Mask of the void turns of a trajectory: a reward of 0 or less after a turn
    with a positive one.

    Source: `MultiTurnRequest.finalize` of KernelGYM (`mask_void_turn`, on by default).
    Effect: a turn that breaks a working kernel is not pushed down itself.  A missing
    reward is neither void nor positive.
    """
    found, positive = [], False
    for reward in rewards:
        found.append(positive and reward is not None and reward <= 0)
        positive = positive or (reward is not None and reward > 0)
    return found


def uniform_groups(turns: Iterable[Turn], least_std: float = LEAST_STD) -> set[object]:
    """Prompts with trajectories ending in equal rewards (unbiased std below
    `least_std`): no gradient comes from them.

    A prompt with fewer than two known last rewards is not judged.  Source: KernelGYM's
    unified_filter, with IS_GET_LAST_TURN.
    """
    last: dict[object, list[float]] = {}
    for (group, _), members in by_trajectory(turns).items():
        final = members[-1]
        reward = final.reward if final.trainable else 0.0
        if reward is not None:
            last.setdefault(group, []).append(reward)
    return {
        group for group, rewards in last.items() if len(rewards) > 1 and stdev(rewards) < least_std
    }


class Level(StrEnum):
    """Unit of the ratio π_train / π_rollout that is compared with the bounds; names
    of KernelGYM's `rollout_rs`.
    """

    TURN = "turn"
    """Product of the turn's token ratios."""
    TURN_GEOMETRIC = "turn_geo"
    """Geometric mean over the turn's tokens."""
    SEQUENCE = "sequence"
    """Product over all tokens of the trajectory."""
    GEOMETRIC = "geometric"
    """Geometric mean over all tokens of the trajectory: Dr. Kernel's MRS."""


OF_TRAJECTORY = frozenset({Level.SEQUENCE, Level.GEOMETRIC})
"""Levels with one ratio for all turns of a trajectory."""


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """Mismatch rejection with the bounds of Dr. Kernel's scripts (eq. 6), both inclusive.

    Between them lies 1, the ratio of a trainer and a rollout engine that agree."""

    level: Level = Level.GEOMETRIC
    lower: float = 0.999
    upper: float = 1.001
    veto: float | None = 1e-4
    """Turns with a token ratio strictly below it are left out; None: no veto."""

    def __post_init__(self) -> None:
        if not 0 < self.lower <= 1 <= self.upper or (self.veto is not None and self.veto <= 0):
            raise CreditError(
                f"mismatch: expected 0 < lower <= 1 <= upper and veto > 0, got {self}"
            )


def train_over_rollout(ratios: Sequence[TokenRatios], *, geometric: bool) -> float:
    """Ratio π_train / π_rollout of some turns together: product or geometric mean
    over tokens; 1 without tokens.
    """
    total = sum(one.log_sum for one in ratios)
    if geometric:
        total /= max(1, sum(one.tokens for one in ratios))
    return math.exp(min(MOST_LOG, max(LEAST_LOG, total)))


def unit_ratios(members: Sequence[Turn], level: Level) -> list[float]:
    """Ratio π_train / π_rollout that is compared with the bounds, for every turn of a trajectory.
    Raises CreditError for a turn without recorded ratios.

    Turns that are not trainable have no tokens in the ratio.
    """
    ratios = [_ratios(turn) for turn in members]
    if level in OF_TRAJECTORY:
        return [train_over_rollout(ratios, geometric=level is Level.GEOMETRIC)] * len(members)
    return [train_over_rollout([one], geometric=level is Level.TURN_GEOMETRIC) for one in ratios]


def mismatched(members: Sequence[Turn], mismatch: Mismatch) -> list[bool]:
    """Mask of the rejected turns of a trajectory.  Raises CreditError for a turn
    without recorded ratios.

    Source: `compute_rollout_rejection_mask` of KernelGYM
    (drkernel/verl_patch/trainer/code/ppo/mismatch_helper.py).
    """
    return [
        not mismatch.lower <= value <= mismatch.upper
        for value in unit_ratios(members, mismatch.level)
    ]


def vetoed(turn: Turn, mismatch: Mismatch) -> bool:
    """True if one token of the turn has a ratio π_train / π_rollout strictly below the veto."""
    ratios = _ratios(turn)
    if mismatch.veto is None or ratios.tokens == 0:
        return False
    return not ratios.log_least >= math.log(mismatch.veto)  # NaN is vetoed, too


def _ratios(turn: Turn) -> TokenRatios:
    if turn.ratios is None:
        raise CreditError(
            f"{turn.trajectory!r}[{turn.index}]: expected recorded log probabilities, got none"
        )
    return turn.ratios if turn.trainable else TokenRatios(log_sum=0.0, tokens=0, log_least=0.0)


@dataclass(frozen=True, kw_only=True)
class Profiling:
    """Profiling-based rejection sampling: Dr. Kernel eq. 9, applied to correct turns
    only, as its code does.
    """

    tau: float = profiling_rejection.TAU
    scale: float = profiling_rejection.SCALE
    ratio: profiling_rejection.Ratio = profiling_rejection.Ratio.TURN
    """GEOMETRIC: over the turns of the trajectory that are still trained on."""
    draw: profiling_rejection.Draw = profiling_rejection.Draw.TURN
    """The code draws per turn in both modes, although its metrics assume one draw
    per trajectory.
    """
    least_speedup: float | None = None
    """Turns at least this fast are kept at any coverage."""
    rounded: bool = False
    """Round coverage to two decimals first, as KernelGYM's reward manager does."""
    seed: int = 0


def keep_chances(
    members: Sequence[Turn], kept: Sequence[bool], profiling: Profiling
) -> list[float]:
    """Chance of each turn of a trajectory to stay; 1 for turns that are not correct.
    A missing profile covers 0.

    Source: `compute_rollout_rejection_mask` of KernelGYM
    (drkernel/kernel/rewards/coverage_helper.py).
    """
    coverages = [turn.coverage or 0.0 for turn in members]
    if profiling.rounded:
        coverages = [round(value, 2) for value in coverages]
    if profiling.ratio is profiling_rejection.Ratio.GEOMETRIC and any(kept):
        mean = profiling_rejection.geometric(
            [value for value, stays in zip(coverages, kept, strict=True) if stays]
        )
        coverages = [mean] * len(members)
    ramp = profiling_rejection.Ramp.SOFT if profiling.scale else profiling_rejection.Ramp.HARD
    found = []
    for turn, coverage in zip(members, coverages, strict=True):
        chance = profiling_rejection.probability(
            coverage, ramp=ramp, tau=profiling.tau, scale=profiling.scale
        )
        fast = (
            profiling.least_speedup is not None and (turn.speedup or 0.0) >= profiling.least_speedup
        )
        found.append(1.0 if fast or not turn.correct else chance)
    return found


def drawn_out(members: Sequence[Turn], kept: Sequence[bool], profiling: Profiling) -> list[bool]:
    """Mask of the turns of a trajectory rejected by their draw, which depends on the
    seed and its name alone.
    """
    found = []
    for turn, chance in zip(members, keep_chances(members, kept, profiling), strict=True):
        name = f"{turn.group}:{turn.trajectory}"
        key = (
            name
            if profiling.draw is profiling_rejection.Draw.TRAJECTORY
            else f"{name}:{turn.index}"
        )
        found.append(keyed_random.uniform(profiling.seed, key) >= chance)
    return found
