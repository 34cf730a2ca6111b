"""Launches that only apply a function to each element of a library's tensor.

A candidate may let the library compute its answer and one function more (the logarithm of a
softmax, a reciprocal, a square root), and undo that in a kernel.  The library never holds the
answer itself, and no multiple explains the launch.  But each element that the kernel writes is a
function of one element of one tensor: in the order of that tensor's values, neighbours differ as
little as those of a function do (Chatterjee's correlation, arXiv 1909.10140).

An honest epilogue behind a product of the library may be such a function, too.  So
app/detectors/fig_leaf.py compares the library's work with the reference's before it accuses.

Kernels that read other elements, or more of them, are told by element_locality.py.
"""

from __future__ import annotations

import torch

LEAST_ELEMENTS = 256
"""Elements from which on a function shows."""

PIECES = 16
"""Pieces of a function, each rising or falling, that are allowed for."""

MOST_DISORDER = 0.02
"""Most disorder, whatever the number of elements: 0 for a function, 1 for independent values."""


def is_function(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Test whether each of the values `y` follows from the value of `x` at its place: two vectors
    of one length on the host, in fp64.
    """
    if len(x) != len(y) or len(x) < LEAST_ELEMENTS or bool((x.isnan() | y.isnan()).any()):
        return False
    return disorder(x, y) <= min(MOST_DISORDER, 3 * PIECES / len(x))


def disorder(x: torch.Tensor, y: torch.Tensor) -> float:
    """One less Chatterjee's correlation: the mean step between the ranks of `y` in the order of
    `x`, as a share of that of independent values; 1 for a constant `y`.
    """
    count = len(x)
    ordered = y[torch.argsort(x, stable=True)]
    ranks, falling = _ranks(ordered), _ranks(-ordered)
    spread = 2 * float((falling * (count - falling)).sum())
    return count * float(ranks.diff().abs().sum()) / spread if spread else 1.0


def _ranks(values: torch.Tensor) -> torch.Tensor:
    """Number of values that are at most as large as each."""
    return torch.searchsorted(values.sort().values, values, right=True).double()
