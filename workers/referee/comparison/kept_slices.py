"""EVALUATE: the part of an answer that does not need the candidate's kernels (hack 1g).

Without its kernels an answer is wrong; but if they only make a few rows, columns or channels, and
the library all others, these others stay right.  Slices are looked at along each dimension: a
kernel that works on all of an output leaves no slice right.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from workers.protocol.roundoff import is_inexact
from workers.referee.comparison.output_errors import LOOKED_AT

CLOSE = 1e-2
"""Error of an element that is right, in multiples of the root mean square of the output."""


def share(
    got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], shapes: Sequence[tuple[int, ...]]
) -> float:
    """Share of the elements of one call's outputs that lie in slices which are right as a whole,
    along the dimension with most of them.  An output that is too large counts as wrong.

    `got`, `expected`: (elements,) per output."""
    kept = sum(
        _largest_share(*each) * each[0].numel() for each in zip(got, expected, shapes, strict=True)
    )
    return kept / max(1, sum(each.numel() for each in got))


def _largest_share(got: torch.Tensor, expected: torch.Tensor, shape: tuple[int, ...]) -> float:
    if not 0 < got.numel() <= LOOKED_AT[got.device.type]:
        return 0.0
    wrong = are_wrong(got, expected).reshape(shape or (1,))
    shares = [
        float(1 - wrong.transpose(0, along).flatten(1).any(dim=1).double().mean())
        if wrong.dim() > 1
        else float(1 - wrong.double().mean())
        for along in range(wrong.dim())
    ]
    return max(shares)


def are_wrong(got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Per element, whether it is off by CLOSE or more; False where none is expected to be finite.
    Both arguments: (elements,).
    """
    if not is_inexact(got.dtype):
        return got != expected.to(got.dtype)
    x = got.to(torch.complex128 if got.dtype.is_complex else torch.float64)
    finite = torch.isfinite(expected)
    size = expected[finite].abs().square().mean().sqrt()
    near = (x - expected).abs() <= CLOSE * size
    return finite & ~near  # NaN is not near
