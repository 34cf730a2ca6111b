"""Inputs of which most elements have one of two magnitudes, in proportions that a factor of a
product keeps however it is scaled.

Rounded to a narrower type all elements of one magnitude err by the same part of it: the errors add
up to a part of the whole product, and do not average out in a sum behind it.  The upper magnitude
is the largest in nearly every row, so that rows that are scaled by their largest are scaled alike.
Some elements stay as they are: sums of equal numbers would round alike in single precision, too.
"""

from __future__ import annotations

import torch

from workers.shims.problem.inputs import input_domain

SAMPLE = 4096
"""Elements of which the magnitudes are chosen."""

MIDDLE, UPPER = 0.6, 0.9
"""Quantiles of the magnitudes: the lower one lies at the first, and all above the second become
equal: one element in ten, so that most rows have some.
"""

NEARBY = 1 / 64
"""Part of itself by which the lower magnitude varies: an approximation of a function errs alike in
that range, a rounding to eight bits or more does not.
"""

KEPT = 1 / 8
"""Share of the other elements that stay as they are."""


def levelled(x: torch.Tensor) -> torch.Tensor:
    """The tensor with its elements at two magnitudes; unchanged if it holds whole numbers or would
    lose its structure.  Draws from torch's seeded generator.
    """
    if x.numel() < 2 or input_domain.is_whole(x):
        return x
    flat = x.reshape(-1)
    sample = flat[:: -(-flat.numel() // SAMPLE)].abs().float().sort().values
    middle, upper = (sample[int(share * (len(sample) - 1))] for share in (MIDDLE, UPPER))
    lower = middle * (1 + NEARBY * float(torch.rand(())))
    kept = torch.rand(x.shape, device=x.device) < KEPT
    size = torch.where(x.abs() >= upper, upper.to(x.dtype), lower.to(x.dtype))
    changed = torch.where(kept & (x.abs() < upper), x, size.copysign(x))
    changed = torch.where(x == 0, x, changed)
    return changed if input_domain.keeps_structure(x, changed, bounds=False) else x
