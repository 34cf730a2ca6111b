"""EVALUATE: detection of output elements that were never written."""

from __future__ import annotations

import torch


def untouched(got: torch.Tensor, poison: torch.Tensor) -> torch.Tensor:
    """Elements of one call's output that seem to hold the slot's earlier content.  Wrong answers may match by chance,
    those of 16 bits often; two calls with different poisons prove it.  Outputs of one-byte types count only as a whole
    slot.

    `poison`: the earlier content, repeated from the first element on."""
    size = got.element_size()
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(size, torch.int64)
    values, pattern = (each.contiguous().view(-1).view(words) for each in (got, poison))
    whole = len(values) // len(pattern) * len(pattern)
    same = torch.cat(
        [
            (values[:whole].view(-1, len(pattern)) == pattern).view(-1),
            values[whole:] == pattern[: len(values) - whole],
        ]
    )
    found = same.view(-1, max(1, size // words.itemsize)).all(dim=1)
    return found if size > 1 else found & found.all()
