"""REINFORCE++ over tokens: returns discounted per token, whitened over the batch
(arXiv 2501.03262).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from app.domain.credit.returns import check_gamma
from app.domain.credit.turns import CreditError, Turn, by_trajectory

WHITENING = 1e-8
"""Added to the variance by verl's `masked_whiten`."""


def whitened(values: Sequence[float], weights: Sequence[int]) -> list[float]:
    """Values minus their weighted mean, over their weighted unbiased standard
    deviation (weights count tokens).

    Fewer than two tokens cannot be standardised: their values come back unchanged (verl raises
    ValueError).  verl adds 1e-8 to the divisor of the mean, so that n tokens of one value v come
    out as some v·1e-4/n there (0.3 for three tokens of 10,000), and as 0 here.
    """
    total = sum(weights)
    if total < 2:
        return list(values)
    middle = sum(weight * value for value, weight in zip(values, weights, strict=True)) / total
    variance = sum(
        weight * (value - middle) ** 2 for value, weight in zip(values, weights, strict=True)
    ) / (total - 1)
    return [(value - middle) / math.sqrt(variance + WHITENING) for value in values]


def reinforce_plus_plus(turns: Sequence[Turn], gamma: float = 1.0) -> list[list[float]]:
    """Advantages of every response token of every turn, in order; each turn's reward
    stands on its last token.

    `gamma` discounts from response token to response token of a trajectory.  Tokens of observations
    between turns are not counted, as in verl (SkyRL's mask includes them, so that they discount
    there).  Raises CreditError for a missing reward or a turn without tokens.
    """
    check_gamma(gamma)
    returns: dict[Turn, list[float]] = {}
    for members in by_trajectory(turns).values():
        following = 0.0
        for turn in reversed(members):
            if turn.reward is None or turn.tokens < 1:
                raise CreditError(
                    f"{turn.trajectory!r}[{turn.index}]: expected a reward and tokens, got {turn}"
                )
            following = turn.reward + gamma * following
            values = [following * gamma**back for back in range(turn.tokens)]
            returns[turn], following = values[::-1], values[-1]
    ordered = [value for turn in turns for value in returns[turn]]
    standard = iter(whitened(ordered, [1] * len(ordered)))
    return [[next(standard) for _ in range(turn.tokens)] for turn in turns]
