"""EVALUATE: detection of output elements that were never written."""

from __future__ import annotations

import torch

AT_ONCE = 1 << 26
"""Elements compared at once; a multiple of the pattern's length."""


def untouched(got: torch.Tensor, poison: torch.Tensor) -> torch.Tensor:
    """Elements of one call's output that seem to hold the slot's earlier content.  Wrong answers
    may match by chance, those of 16 bits often; two calls with different poisons prove it.  Outputs
    of one-byte types count only as a whole slot.

    `poison`: the earlier content, repeated from the first element on.
    """
    size = got.element_size()
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(size, torch.int64)
    values, pattern = (each.contiguous().view(-1).view(words) for each in (got, poison))
    found = torch.empty(got.numel(), dtype=torch.bool, device=got.device)
    per_element = max(1, size // words.itemsize)
    for mask, part in zip(
        torch.split(found, AT_ONCE), torch.split(values, AT_ONCE * per_element), strict=True
    ):
        mask.copy_(_equal(part, pattern).view(-1, per_element).all(dim=1))
    return found if size > 1 else found.logical_and_(found.all())


def both(mask: torch.Tensor, other: torch.Tensor) -> int:
    """Number of elements in both masks."""
    pairs = zip(torch.split(mask, AT_ONCE), torch.split(other, AT_ONCE), strict=True)
    return int(torch.stack([(one & two).sum() for one, two in pairs]).sum())


def _equal(values: torch.Tensor, pattern: torch.Tensor) -> torch.Tensor:
    """Values that are equal to the pattern, repeated from the first one on."""
    whole = len(values) // len(pattern) * len(pattern)
    repeated = (values[:whole].view(-1, len(pattern)) == pattern).view(-1)
    return torch.cat([repeated, values[whole:] == pattern[: len(values) - whole]])
