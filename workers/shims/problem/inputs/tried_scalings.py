"""Factors on a problem's inputs that are tried, one after another, until values reach a limit of
its reference that they miss (reaching_inputs.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from workers.shims.problem.inputs.input_changes import Scaling
from workers.shims.problem.observers import softmax_arguments
from workers.shims.problem.observers.reference_limits import Limits

ATTEMPTS = 3
"""Factors that are tried, each four times as large as the one before."""

LARGEST_FACTOR = 1e6

BEYOND = 8.0
"""Multiple of a limit that scaled values reach."""

ONE_SIDED_FACTORS = (8.0, 64.0)
"""Factors that are tried for operators that treat both signs differently, on values of one sign."""

UNANIMOUS_FACTORS = (64.0, 4096.0)
"""Factors that are tried for comparisons of two tensors of which one is larger everywhere."""


def of(missed: Limits, bounds: Collection[bool]) -> Iterator[Scaling]:
    """Changes to try.  `bounds`: values of Scaling.leaves_bounds."""
    for leaves_bounds in bounds:
        yield from (
            Scaling(factor, leaves_bounds=leaves_bounds, is_whole=is_whole)
            for factor, is_whole in _factors(missed)
        )
        if missed.one_sided:
            yield from (
                Scaling(factor, leaves_bounds=leaves_bounds) for factor in ONE_SIDED_FACTORS
            )
        if missed.unanimous:
            for is_scattered in (False, True):
                yield from (
                    Scaling(factor, is_scattered, leaves_bounds) for factor in UNANIMOUS_FACTORS
                )
        if missed.overflows:
            yield from (
                Scaling(factor, leaves_bounds=leaves_bounds, scales_peaks=True)
                for factor in softmax_arguments.factors(min(missed.overflows))
            )


def _factors(missed: Limits) -> Iterator[tuple[float, bool]]:
    """Factors to try, and whether on all elements: growing ones for limits above all values; for
    limits below, of which a result may grow as its inputs shrink, in either direction; smaller ones
    on all elements for a norm of a whole tensor, or a quotient by it.
    """
    above, below = (max(ratios, default=0.0) for ratios in (missed.above, missed.below))
    if above:
        grown = (BEYOND * above * 4**attempt for attempt in range(ATTEMPTS))
        yield from ((each, False) for each in grown if each <= LARGEST_FACTOR)
    if below:
        yield from ((1 / (times * BEYOND * below), False) for times in (1, 4))
    for ratio in (above, below):
        if 0 < ratio <= LARGEST_FACTOR:
            yield 1 / (2 * ratio), True
    if below:
        yield BEYOND * below, False
