"""Weights that follow from fewer numbers until the model is trained: at regular steps, symmetric,
alike along their diagonals, or in a band.

Examples are the edges of bins and the centers of radial functions (`linspace`), slopes by head,
rates of states (`log(arange)`), and mixing by a triangular or block diagonal matrix.  A candidate
may compute them, or leave out the products with the zeros beside a band.  Zeros in any other order
are left alone: they may be those of pruned weights, which a kernel may pack.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

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


Test = Callable[[torch.Tensor], torch.Tensor]


def is_regular(weight: torch.Tensor) -> bool:
    """Test of a weight of one dimension or more; others are not regular."""
    if weight.dim() == 0 or weight.numel() < LEAST:
        return False
    if any(map(bool, _steps(weight))):
        return True
    matrix = _matrix(weight)
    return any(bool(test(part)) and bool(test(matrix)) for test, part in _tests(matrix))


def may_be_regular(weight: torch.Tensor) -> torch.Tensor:
    """The answer, not read yet, of a test of a part of a weight: where it is false, `is_regular`
    is.
    """
    none = torch.zeros((), dtype=torch.bool, device=weight.device)
    if weight.dim() == 0 or weight.numel() < LEAST:
        return none
    of_matrix = (test(part) for test, part in _tests(_matrix(weight)))
    return functools.reduce(torch.logical_or, (*_steps(weight), *of_matrix), none)


def _steps(weight: torch.Tensor) -> Iterator[torch.Tensor]:
    """Tests of the first row for equal steps of its numbers, and of those of which they are powers
    or logarithms.
    """
    row = weight.flatten(0, -2)[0] if weight.dim() > 1 else weight
    if len(row) >= LEAST:
        row = row.double()
        yield _has_equal_steps(row)
        yield ((row > 0).all() | (row < 0).all()) & _has_equal_steps(row.abs().log())
        yield _has_equal_steps(row.exp())


def _matrix(weight: torch.Tensor) -> torch.Tensor:
    return weight.flatten(1) if weight.dim() > 1 else weight[:, None]


def _tests(matrix: torch.Tensor) -> Iterator[tuple[Test, torch.Tensor]]:
    """Tests of a matrix, each with the part of it that is tested first."""
    if min(matrix.shape) < LEAST:
        return
    corner = matrix[:LOOKED_AT, :LOOKED_AT]
    yield _is_banded, matrix[:: -(-len(matrix) // LOOKED_AT)]
    if matrix.shape[0] == matrix.shape[1]:
        yield _is_symmetric, corner
    yield _is_toeplitz, corner


def _has_equal_steps(row: torch.Tensor) -> torch.Tensor:
    steps = row.diff()
    mean = steps.mean()
    return (steps - mean).abs().amax() < STEPS * mean.abs()


def _is_symmetric(matrix: torch.Tensor) -> torch.Tensor:
    return (matrix == matrix.T).all()


def _is_toeplitz(matrix: torch.Tensor) -> torch.Tensor:
    return (matrix[1:, 1:] == matrix[:-1, :-1]).all()


def _is_banded(matrix: torch.Tensor) -> torch.Tensor:
    """Test for rows of which the numbers other than zero lie side by side, and many zeros."""
    filled = matrix != 0
    starts = (filled[:, 1:] & ~filled[:, :-1]).sum(dim=1) + filled[:, 0]
    is_sparse = filled.double().mean() <= 1 - ZEROS
    return is_sparse & (starts <= 1).all() & filled.any()
