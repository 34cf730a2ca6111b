"""Reinforce-Ada (arXiv 2510.04996): sample a prompt in rounds, stop when its pool
suffices, train on a part of it.

Source: RLHFlow/Reinforce-Ada@05be605, `_generate_multi_round_adaptive_downsampling`
(verl/trainer/ppo/ray_trainer.py) and `compute_grpo_outcome_advantage`
(verl/trainer/ppo/core_algos.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev

from app.domain.credit.rules import EPSILON
from app.domain.credit.turns import CreditError

POSITIVE_ABOVE = 0.7
"""A reward above this, strictly, is positive: the released default."""
KEEP = 4
"""Rows of a prompt that are trained on."""
ROUND = 8
"""Samples of a prompt in one round."""
MOST_ROUNDS = 4
"""Rounds after which a prompt is sampled no more, its condition met or not."""


class Exit(StrEnum):
    """Condition that ends the sampling of a prompt."""

    POSITIVE = "positive_focused"
    """One positive sample: Ada-pos."""
    BALANCED = "balanced"
    """Half of `keep` positive and half negative: Ada-balance."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Rewards of all samples of one prompt, in the order of sampling; a missing
    reward is no sample.
    """

    rewards: tuple[float, ...]
    threshold: float = POSITIVE_ABOVE

    @classmethod
    def of(cls, rewards: Sequence[float | None], *, threshold: float = POSITIVE_ABOVE) -> Pool:
        """Pool without the missing rewards."""
        return cls(
            rewards=tuple(reward for reward in rewards if reward is not None), threshold=threshold
        )

    @property
    def positive(self) -> list[int]:
        """Indices of positive samples."""
        return [at for at, reward in enumerate(self.rewards) if reward > self.threshold]

    @property
    def negative(self) -> list[int]:
        """Indices of the others."""
        return [at for at, reward in enumerate(self.rewards) if reward <= self.threshold]

    @property
    def mean(self) -> float:
        """Share of positive samples in the whole pool; 0 with fewer than two
        samples, as in the reference.
        """
        return len(self.positive) / len(self.rewards) if len(self.rewards) > 1 else 0.0

    @property
    def std(self) -> float:
        """Unbiased standard deviation of the samples as 0 and 1; at least 1e-6, and
        1 with fewer than two.
        """
        if len(self.rewards) < 2:
            return 1.0
        return max(stdev([float(reward > self.threshold) for reward in self.rewards]), EPSILON)


def suffices(pool: Pool, condition: Exit, keep: int = KEEP) -> bool:
    """True if the prompt needs no further round.  A round is pooled whole before this is asked."""
    if condition is Exit.POSITIVE:
        return bool(pool.positive)
    return len(pool.positive) >= keep // 2 and len(pool.negative) >= keep - keep // 2


def down_sample(pool: Pool, keep: int = KEEP) -> list[int]:
    """Indices of the samples that are trained on: the first keep//2 positive ones,
    then negative ones up to `keep`.

    A short side is filled from the other.  The first ones are taken, not random ones, as in the
    reference; the paper does not say.  Pools that never sufficed follow the same rule.
    """
    if keep < 1:
        raise CreditError(f"keep: expected 1 or more, got {keep}")
    positive, negative = pool.positive, pool.negative
    from_positive = min(keep // 2, len(positive))
    from_negative = min(keep - from_positive, len(negative))
    from_positive = min(len(positive), keep - from_negative)
    return positive[:from_positive] + negative[:from_negative]


def advantages(
    pool: Pool, kept: Sequence[int], *, whole_pool: bool = True, scaled: bool = False
) -> list[float]:
    """A = r − mean of the kept samples; `scaled` divides by their standard deviation + 1e-6.

    `whole_pool` (the paper, and `global_stat_est` of the script; the configuration's default is
    False) takes mean and deviation of all samples as 0 and 1; else those of the kept rewards.  One
    kept sample alone then has mean 0 and deviation 1.
    """
    rewards = [pool.rewards[at] for at in kept]
    if whole_pool:
        middle, spread = pool.mean, pool.std
    elif len(rewards) > 1:
        middle, spread = fmean(rewards), stdev(rewards)
    else:
        middle, spread = 0.0, 1.0
    scale = spread + EPSILON if scaled else 1.0
    return [(reward - middle) / scale for reward in rewards]
