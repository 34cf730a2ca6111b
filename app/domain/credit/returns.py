"""Returns-to-go of a trajectory's rewards, and reward shaping."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from app.domain.credit.turns import CreditError


class Shaping(StrEnum):
    """Change of rewards before returns are computed."""

    NONE = "none"
    DIFFERENCE = "difference"
    """Gain over the turn before: r'_1 = r_1, r'_t = r_t − r_{t−1}."""
    UNBIASED = "unbiased"
    """The same with the last reward multiplied by 1 − γ first.  The return of the first turn
    then is a multiple of the plain return: Σ γ^t (r_t − r_{t−1}) = (1 − γ) Σ γ^t r_t, so that
    the best policy stays the best.
    """


def returns_to_go(rewards: Sequence[float | None], gamma: float = 1.0) -> list[float | None]:
    """Discounted sums G_t = r_t + γ G_{t+1} of one trajectory, in order.

    A missing reward makes its own return missing and, unless γ is 0, those of all turns before it;
    later turns keep theirs.  Source: Dr. Kernel (arXiv 2602.05885) eq. 2, γ = 1;
    `compute_multi_turn_returns` of KernelGYM; Kevin (arXiv 2507.11948), γ = 0.4.
    """
    check_gamma(gamma)
    found: list[float | None] = []
    following: float | None = 0.0
    for reward in reversed(rewards):
        known = reward is not None and (following is not None or gamma == 0)
        following = (reward or 0.0) + gamma * (following or 0.0) if known else None
        found.append(following)
    return found[::-1]


def shaped(rewards: Sequence[float | None], gamma: float, shaping: Shaping) -> list[float | None]:
    """Shaped rewards of one trajectory, in order; a difference with a missing reward is missing.

    Source: `shape_rewards` of KernelGYM (drkernel/kernel/trainer/ppo/core_algos.py).  Difference:
    there the unbiased form also changes the caller's rewards in place.
    """
    check_gamma(gamma)
    if shaping is Shaping.NONE:
        return list(rewards)
    used = list(rewards)
    if shaping is Shaping.UNBIASED and used and used[-1] is not None:
        used[-1] *= 1 - gamma
    before: list[float | None] = [0.0, *used[:-1]]
    return [
        None if reward is None or earlier is None else reward - earlier
        for reward, earlier in zip(used, before, strict=True)
    ]


def check_gamma(gamma: float) -> None:
    """Raises CreditError unless 0 ≤ γ ≤ 1."""
    if not 0 <= gamma <= 1:
        raise CreditError(f"gamma: expected 0 to 1, got {gamma}")
