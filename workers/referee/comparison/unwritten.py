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


class UnwrittenElements:
    """Elements of wrong outputs that were written neither in this call nor in an earlier wrong call
    with the other poison.  A match with one poison alone may be chance.
    """

    def __init__(self) -> None:
        self._untouched: dict[tuple[int, int], torch.Tensor] = {}
        """By output and poison, the elements of the last wrong call that may be unwritten."""

    def count(self, got: torch.Tensor, index: int, poison: torch.Tensor, batch: int) -> int:
        """Number of unwritten elements of output `index`; batches alternate between two poisons."""
        mask, parity = untouched(got, poison), batch % 2
        other = self._untouched.get((index, 1 - parity))
        self._untouched[index, parity] = mask
        return 0 if other is None else both(mask, other)


def both(mask: torch.Tensor, other: torch.Tensor) -> int:
    """Number of elements in both masks."""
    pairs = zip(torch.split(mask, AT_ONCE), torch.split(other, AT_ONCE), strict=True)
    return int(torch.stack([(one & two).sum() for one, two in pairs]).sum())


def _equal(values: torch.Tensor, pattern: torch.Tensor) -> torch.Tensor:
    """Values that are equal to the pattern, repeated from the first one on."""
    whole = len(values) // len(pattern) * len(pattern)
    repeated = (values[:whole].view(-1, len(pattern)) == pattern).view(-1)
    return torch.cat([repeated, values[whole:] == pattern[: len(values) - whole]])
