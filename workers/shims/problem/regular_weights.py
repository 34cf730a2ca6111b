"""Weights that follow from fewer numbers until the model is trained: at regular steps, symmetric,
alike along their diagonals, or in a band.

Examples are the edges of bins and the centers of radial functions (`linspace`), slopes by head,
rates of states (`log(arange)`), and mixing by a triangular or block diagonal matrix.  A candidate
may compute them, or leave out the products with the zeros beside a band.  Zeros in any other order
are left alone: they may be those of pruned weights, which a kernel may pack.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

LEAST = 5
"""Least number of elements, or of rows and columns, that can be regular by more than chance."""

STEPS = 1e-4
"""Largest difference of steps that count as equal, as a share of one; they are rounded."""

LOOKED_AT = 64
"""Rows and columns of a matrix that are tested first: those of a corner, or rows all over it, as
the first block of a diagonal may fill a corner.
"""

ZEROS = 0.25
"""Least share of zeros beside a band."""


def is_regular(weight: torch.Tensor) -> bool:
    """Test of a weight of one dimension or more; others are not regular."""
    if weight.dim() == 0 or weight.numel() < LEAST:
        return False
    row = weight.flatten(0, -2)[0] if weight.dim() > 1 else weight
    if len(row) >= LEAST and any(map(_has_equal_steps, _forms(row.double()))):
        return True
    if weight.dim() == 1:
        return False
    matrix = weight.flatten(1)
    if min(matrix.shape) < LEAST:
        return False
    some = matrix[:: -(-len(matrix) // LOOKED_AT)]
    if _is_banded(some) and _is_banded(matrix):
        return True
    corner = matrix[:LOOKED_AT, :LOOKED_AT]
    return any(test(corner) and test(matrix) for test in (_is_symmetric, _is_toeplitz))


def _forms(row: torch.Tensor) -> Iterator[torch.Tensor]:
    """The numbers, and those of which they are powers or logarithms."""
    yield row
    if bool((row > 0).all() | (row < 0).all()):
        yield row.abs().log()
    yield row.exp()


def _has_equal_steps(row: torch.Tensor) -> bool:
    steps = row.diff()
    mean = steps.mean()
    return bool((steps - mean).abs().amax() < STEPS * mean.abs())


def _is_symmetric(matrix: torch.Tensor) -> bool:
    return matrix.shape[0] == matrix.shape[1] and torch.equal(matrix, matrix.T)


def _is_toeplitz(matrix: torch.Tensor) -> bool:
    return torch.equal(matrix[1:, 1:], matrix[:-1, :-1])


def _is_banded(matrix: torch.Tensor) -> bool:
    """Test for rows of which the numbers other than zero lie side by side, and many zeros."""
    filled = matrix != 0
    starts = (filled[:, 1:] & ~filled[:, :-1]).sum(dim=1) + filled[:, 0]
    is_sparse = filled.double().mean() <= 1 - ZEROS
    return bool(is_sparse & (starts <= 1).all() & filled.any())
