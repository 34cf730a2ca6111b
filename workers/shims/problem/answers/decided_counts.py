"""Counts that rounding decides: tokens per expert, the offsets of their groups, a histogram.

A token that goes to another expert changes two numbers, and all offsets in between.
"""

from __future__ import annotations

import torch

MOST = 1e-3
"""Change of an output that rounding may make, in all, relative to its sum."""


def reach(low: torch.Tensor, high: torch.Tensor, answer: torch.Tensor) -> None:
    """Extend the range of answers with rounding errors by another one."""
    torch.minimum(low, answer, out=low)
    torch.maximum(high, answer, out=high)


def are_near(
    mine: torch.Tensor, theirs: torch.Tensor, low: torch.Tensor, high: torch.Tensor
) -> bool:
    """Test whether whole numbers differ from the expected ones by no more than answers with
    rounding errors do, and by little in all.  `low`, `high`: the least and the largest of those.
    """
    if mine.dtype == torch.bool:
        return False
    wide, least, most = mine.double(), low.double(), high.double()
    beyond = most - least  # a few answers do not reach the ends
    inside = (wide >= least - beyond) & (wide <= most + beyond)
    off = (wide - theirs.double()).abs().sum()
    return bool(inside.all() & (off <= MOST * theirs.double().abs().sum()))
