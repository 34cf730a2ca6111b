"""Other values for a weight, with which a reference's operators reach limits that its own miss.

The reference's process tries them (workers/shims/problem/telling_weights.py), and the referee
writes them for both sides (workers/referee/probes/weight_values.py); each brings new elements
`in_order` once, before it writes them.
"""

from __future__ import annotations

import torch

SPREAD = 0.2
"""Standard deviation of the values that replace zeros, and of the logarithm of the factor on other
values.  It moves a norm's answer by a fifth.
"""

FACTORS = (1.0, 1 / 16, 4.0, 16.0, 64.0, -1.0, -4.0, -64.0)
"""Factors that are tried, in this order: the first moves a weight off a trait, the second opens
saturated gates, the larger ones reach limits, and a negative one gives half of the elements the
other sign, which may only lead away from a limit.
"""

LEAST_SORTED = 4
"""Least length of a vector from which on its order counts."""


def moved(values: torch.Tensor, factor: float, generator: torch.Generator) -> torch.Tensor:
    """The elements of a weight with random factors about this one and small random numbers added;
    half of them, one at least, with the other sign if it is negative.  `values`: one dimension.
    """
    noise, more = (
        SPREAD * torch.randn(values.shape, generator=generator, device=values.device)
        for _ in range(2)
    )
    size = values.float().square().mean().sqrt()
    changed = abs(factor) * (values * noise.exp() + size * more)
    return changed if factor > 0 else _of_both_signs(changed, generator)


def _of_both_signs(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    order = torch.randperm(len(values), generator=generator, device=values.device)
    return torch.where(order < (len(values) + 1) // 2, -values, values)


def in_order(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """The new elements, sorted as the old ones are, if these are: they may be searched."""
    steps = before.diff()
    if len(before) < LEAST_SORTED or not bool(steps.any()):
        return after
    if bool((steps >= 0).all()):
        return after.sort().values
    return after.sort(descending=True).values if bool((steps <= 0).all()) else after
