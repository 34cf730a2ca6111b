"""Changes to a small part of a tensor, at random places.

A candidate may look at a sample of its inputs (the first row, every 16th, the corners of a mask)
and leave work out if they look usual.  Changed inputs are recognised by such a look if all of them
are changed, and seldom if a few are.  All functions draw from torch's seeded generator.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

FEW = 1 / 64
"""Share of the rows that are changed; one at least."""

PART = 4
"""Divisor of a size: the number of consecutive slices that are changed along one dimension."""

Change = Callable[[torch.Tensor], torch.Tensor]


def in_few_rows(x: torch.Tensor, change: Change) -> torch.Tensor:
    """The tensor with a few slices replaced by those of `change(slices)`: along a random dimension
    but the last, or along the last if no other has more than one slice.
    """
    along = _dimension(x)
    if along is None:
        return x
    chosen = torch.randperm(x.shape[along], device=x.device)[: max(1, int(FEW * x.shape[along]))]
    return x.index_copy(along, chosen, change(x.index_select(along, chosen)))


def in_a_quarter(x: torch.Tensor, change: Change) -> torch.Tensor:
    """The tensor with a box of it replaced by `change(box)`: consecutive slices along two random
    dimensions, a quarter of them and two at least; all of it if no dimension has four.
    """
    wide = [dim for dim, size in enumerate(x.shape) if size >= PART]
    changed = x.clone()
    box, source = changed, x
    for at in torch.randperm(len(wide))[:2].tolist():
        along = wide[at]
        size = max(2, x.shape[along] // PART)
        first = _below(x.shape[along] - size + 1)
        box, source = box.narrow(along, first, size), source.narrow(along, first, size)
    box.copy_(change(source))
    return changed


def with_equal_halves(rows: torch.Tensor) -> torch.Tensor:
    """Rows along the last dimension; the second half repeats the first."""
    half = rows.shape[-1] // 2
    repeated = rows.clone()
    repeated[..., half : 2 * half] = rows[..., :half]
    return repeated


def with_equal_pairs(rows: torch.Tensor) -> torch.Tensor:
    """Rows along the last dimension, in which every second element repeats the one before."""
    even = rows.shape[-1] // 2 * 2
    repeated = rows.clone()
    repeated[..., 1:even:2] = rows[..., :even:2]
    return repeated


def _dimension(x: torch.Tensor) -> int | None:
    several = [dim for dim, size in enumerate(x.shape[:-1]) if size > 1]
    if several:
        return several[_below(len(several))]
    return x.dim() - 1 if x.dim() and x.shape[-1] > 1 else None


def _below(bound: int) -> int:
    return int(torch.randint(bound, ()))
