"""EVALUATE: small changes to an input that an answer leaves out (hack 1c).

Errors are relative to a whole output.  Where the right answer is an input that hardly changes (a
residual with a branch scaled by 1e-6, an optimiser's step, a response that is normalised by
almost one), the input as it is lies within the limits.  So the error is also compared with the
change itself: an answer is wrong if it is off by half of the change that the reference, in its own
precision, computes accurately; and if it equals the input in most of the elements that change in
the reference's answer even after rounding.

It does not guard against a change that rounding hides from the reference, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from workers.protocol.roundoff import computable
from workers.referee.comparison.output_errors import LOOKED_AT

SMALL = 0.05
"""Largest relative L2 norm of a change that is looked at: limits notice the absence of others."""

WRONG, CERTAIN = 0.5, 0.2
"""Relative L2 error of a change that is wrong, and the largest one of the reference in its own
precision at which it is evidence.
"""

KEPT, AGREED = 0.5, 0.9
"""Share of the elements that change after rounding: of those that a wrong answer leaves
as they were, and of those that the reference's own answer changes, at least.
"""

LEAST = 32
"""Elements from which on changes are evidence."""

AT_ONCE = 1 << 22
"""Elements examined at once: they are copied in fp64."""


def first(
    got: torch.Tensor,
    expected: torch.Tensor,
    baseline: torch.Tensor,
    inputs: Sequence[tuple[int, torch.Tensor]],
) -> int | None:
    """Index of the first input with a change that an output leaves out; None if there is none.

    `got`, `baseline`: (elements,) in the output's type; `expected`: the same in fp64; `inputs`:
    index and elements of the inputs of the output's type and shape.
    """
    if not _is_examined(got):
        return None
    return next(
        (at for at, given in inputs if _is_left_out(_sums(got, expected, baseline, given))), None
    )


def rounds_to_one(
    expected: torch.Tensor, baseline: torch.Tensor, inputs: Sequence[tuple[int, torch.Tensor]]
) -> bool:
    """Test whether an output is one of the inputs, but for changes that rounding undoes.  The
    arguments are those of `first`.
    """
    if not _is_examined(baseline):
        return False
    sums = [_sums(baseline, expected, baseline, given) for _, given in inputs]
    return any(each.is_small and each.moves < LEAST for each in sums)


def _is_examined(values: torch.Tensor) -> bool:
    return (
        values.is_floating_point()
        and values.element_size() > 1
        and LEAST <= values.numel() <= LOOKED_AT[values.device.type]
    )


class _Sums(NamedTuple):
    """Sums over the elements of an output that are finite: squares, and counts of those that change
    after rounding.
    """

    size: float
    """Squares of the expected output."""
    change: float
    """Squares of its change to the input."""
    error: float
    own_error: float
    """Squares of the answer's error, and of the reference's in its own precision."""
    moves: float
    """Elements that change after rounding."""
    kept: float
    """Elements of these that the answer leaves as they are in the input."""
    agreed: float
    """Elements of these that the reference's own answer changes."""

    @property
    def is_small(self) -> bool:
        """True for a change that limits might not notice."""
        return 0 < self.change <= SMALL**2 * self.size


def _sums(*tensors: torch.Tensor) -> _Sums:
    """The sums of `_terms`."""
    parts = zip(*(torch.split(each, AT_ONCE) for each in tensors), strict=True)
    return _Sums(*torch.stack([_terms(*part) for part in parts]).sum(dim=0).tolist())


def _terms(
    got: torch.Tensor, expected: torch.Tensor, baseline: torch.Tensor, given: torch.Tensor
) -> torch.Tensor:
    """Fields of `_Sums` for some of the elements, fp64 (7,)."""
    exact = expected.double()
    x, mine, own = (computable(each).double() for each in (given, got, baseline))
    squares = torch.stack([exact, exact - x, mine - exact, own - exact]).square_()
    squares.masked_fill_(~torch.isfinite(squares).all(dim=0), 0)
    moves = expected.to(got.dtype) != given
    counts = [moves, moves & (got == given), moves & (baseline != given)]
    return torch.cat((squares.sum(dim=1), torch.stack([each.sum() for each in counts]).double()))


def _is_left_out(sums: _Sums) -> bool:
    if not sums.is_small:
        return False
    is_certain = sums.own_error <= CERTAIN**2 * sums.change
    by_error = is_certain and sums.error > WRONG**2 * sums.change
    shows = sums.moves >= LEAST and sums.agreed >= AGREED * sums.moves
    by_count = shows and sums.kept > KEPT * sums.moves
    return by_error or by_count
