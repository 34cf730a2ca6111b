"""EVALUATE: slices of an output that are wrong although the output as a whole is
within its limits (hack 1c).

Errors are relative to a whole output.  If its channels or rows differ in size by orders of
magnitude, small ones could be left out.  So along each dimension a slice is wrong if its error is
half of its own size, although the reference in its own precision is accurate there.  Slices of a
few elements, as of a flat output, are looked at in blocks.

This does not guard against small elements that are scattered, where rounding and
cancellation are as large as they are.
"""

from __future__ import annotations

import torch

from workers.protocol.roundoff import computable, is_inexact
from workers.referee.comparison.output_errors import LOOKED_AT

WRONG = 0.5
"""Relative L2 error of a slice that is wrong."""

CERTAIN = 1e-2
"""Largest relative L2 error of the reference in its own precision at which a slice is evidence."""

LEAST = 32
"""Elements of the smallest slice that is evidence: a few elements may cancel to almost nothing."""

BLOCKS = 64
"""Blocks along a dimension of small slices: a part smaller than a block gains nothing."""

AT_ONCE = 1 << 22
"""Elements examined at once, or those of one index of the first dimension: they are
copied in fp64.
"""


def first(
    got: torch.Tensor, expected: torch.Tensor, baseline: torch.Tensor, shape: tuple[int, ...]
) -> tuple[int, int] | None:
    """Dimension and index of the first wrong slice of one call's output, or of the first in a wrong
    block of slices; None if there is none.

    `got`, `baseline`: (elements,) in the output's type; `expected`: the same in fp64, or exact."""
    count = got.numel()
    if (
        not is_inexact(got.dtype)
        or not LEAST < count <= LOOKED_AT[got.device.type]
        or count // shape[0] > AT_ONCE
    ):
        return None
    blocks = {along: _block(size, count // size) for along, size in enumerate(shape)}
    dimensions = [along for along, block in blocks.items() if shape[along] // block > 1]
    if not dimensions:
        return None
    sums: list[list[torch.Tensor]] = [[] for _ in dimensions]
    rows = max(1, AT_ONCE * shape[0] // count // blocks[0]) * blocks[0]
    wide = map(computable, (got, expected, baseline))
    for parts in zip(*(torch.split(each.reshape(shape), rows) for each in wide), strict=True):
        margins = _margins(_squares(*parts))
        for found, along in zip(sums, dimensions, strict=True):
            found.append(_in_blocks(margins[along], blocks[along]))
    faint = (torch.finfo(got.dtype).tiny / torch.finfo(got.dtype).eps) ** 2
    wrong = [
        _are_wrong(torch.cat(found, dim=1) if along == 0 else torch.stack(found).sum(dim=0), faint)
        for found, along in zip(sums, dimensions, strict=True)
    ]
    if not bool(torch.stack([mask.any() for mask in wrong]).any()):
        return None
    along, mask = next(
        (along, mask) for along, mask in zip(dimensions, wrong, strict=True) if bool(mask.any())
    )
    return along, int(mask.nonzero()[0]) * blocks[along]


def _block(size: int, elements: int) -> int:
    """Number of slices that are looked at as one; `elements`: those of a slice."""
    return 1 if elements >= LEAST else max(-(-LEAST // elements), -(-size // BLOCKS))


def _in_blocks(sums: torch.Tensor, block: int) -> torch.Tensor:
    """Sums of a dimension's slices, added up in blocks; without the rest that fills none."""
    whole = sums.shape[1] // block * block
    return sums[:, :whole].reshape(len(sums), -1, block).sum(dim=2) if block > 1 else sums


def _squares(got: torch.Tensor, expected: torch.Tensor, baseline: torch.Tensor) -> torch.Tensor:
    """Squares of the error, of the reference's error, and of the expected output; 0
    if one of them is not finite.
    """
    squares = torch.stack(
        [each.abs().double().square_() for each in (got - expected, baseline - expected, expected)]
    )
    return squares.masked_fill_(~torch.isfinite(squares).all(dim=0), 0)


def _margins(squares: torch.Tensor) -> list[torch.Tensor]:
    """Sums along each dimension but the first, over all others, in two passes."""
    found = []
    while squares.dim() > 1:
        found.append(squares.flatten(1, -2).sum(dim=1) if squares.dim() > 2 else squares)
        squares = squares.sum(dim=-1)
    return found[::-1]


def _are_wrong(sums: torch.Tensor, faint: float) -> torch.Tensor:
    """Per slice, whether it is wrong, from the sums of `_squares`."""
    errors, own, size = sums
    wrong: torch.Tensor = (errors > WRONG**2 * size) & (own <= CERTAIN**2 * size) & (size > faint)
    return wrong
