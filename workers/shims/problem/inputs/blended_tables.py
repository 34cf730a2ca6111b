"""Tables with the structure of another: floating-point inputs of several rows and many values that
are the same in every draw (a codebook, a rotation by position, a filter bank).

A candidate may keep results of such a table, as long as a few of its numbers are the same.
Rows are therefore moved towards others: signs, zeros (a band, a triangle), order along rows, their
sums and the bounds of all numbers stay, and the row with the largest number as a whole.  Vectors
are left alone: evenly spaced positions are part of the problem.
"""

from __future__ import annotations

import torch

from workers.protocol.roundoff import computable
from workers.shims.problem.inputs import input_domain, local_changes

SHARES = (0.25, 0.75)
"""Range of the share of a row that is taken from another one."""


def may_be_blended(x: torch.Tensor) -> bool:
    """Test for several rows, of which blended ones have the same structure."""
    return _first_of_several(x) is not None and input_domain.keeps_structure(x, _blended(x))


def blended(x: torch.Tensor, *, in_part: bool = False) -> torch.Tensor:
    """The table with each row moved towards another; `in_part`: only at places where samples seldom
    look.  Unchanged where that would break its structure; draws from torch's seeded generator.
    """
    changed = _blended(x)
    if in_part:
        nowhere = torch.zeros(x.shape, dtype=torch.bool, device=x.device)
        chosen = local_changes.in_secluded_places(nowhere, torch.logical_not, whole=1)
        changed = torch.where(chosen, changed, x)
    return changed if input_domain.keeps_structure(x, changed) else x


def _blended(x: torch.Tensor) -> torch.Tensor:
    along = _first_of_several(x)
    if along is None:
        return x
    wide = computable(x)
    others = wide.roll(1 + int(torch.randint(x.shape[along] - 1, ())), along)
    largest = wide.abs().amax(dim=[dim for dim in range(x.dim()) if dim != along], keepdim=True)
    low, high = SHARES
    share = low + (high - low) * torch.rand_like(largest)
    moved = torch.lerp(wide, others, share * (largest < largest.amax()))
    return torch.where(wide == 0, wide, moved).to(x.dtype)


def _first_of_several(x: torch.Tensor) -> int | None:
    """The first dimension with several slices, but for the last."""
    return next((dim for dim, size in enumerate(x.shape[:-1]) if size > 1), None)
