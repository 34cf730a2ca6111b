"""Counts of the limits that values of a call miss, by the numbers that observers read."""

from __future__ import annotations

from workers.shims.problem.observers import softmax_arguments

LARGEST_SHRINKING = 1e3
"""Largest ratio of the least value and a limit below it; smaller limits keep a
division from zero.
"""

NEAR_ZERO, CURVES = 0.05, 0.25
"""Largest value of an operator that is nearly a polynomial there, and the limit that its scaled
values leave.
"""


class MissedCounts:
    """Counts of one call, none at first."""

    def __init__(self) -> None:
        """Without a missed limit."""
        super().__init__()
        self.above: list[float] = []
        """Factors by which values of operators would have to be scaled to reach their limits."""
        self.below: list[float] = []
        """Divisors by which they would have to be."""
        self.unanimous = 0
        """Comparisons of two tensors of which one is larger everywhere."""
        self.one_sided = 0
        """Operators that treat both signs differently, on values of one sign."""
        self.shallow = 0
        """Maxima of values of both signs of which none lies far below zero, and minima of which
        none lies far above.
        """
        self.overflows: list[float] = []
        """Factors by which arguments of a softmax would have to be scaled for exp to overflow."""
        self.averaging = 0
        """Products of matrices of one sign each."""

    def note_overflow(self, least: float, most: float) -> None:
        """Note the least and the largest of the maxima of a softmax."""
        factor = softmax_arguments.factor(least, most)
        self.overflows += [factor] if factor is not None else []

    def note_averaging(self, averages: float) -> None:
        """Note whether the factors of a product have one sign each."""
        self.averaging += bool(averages)

    def note_shallow(self, is_shallow: float) -> None:
        """Note whether no maximum lies far below zero."""
        self.shallow += bool(is_shallow)

    def note_range(self, limit: float, lowest: float, highest: float) -> None:
        """Note the least and the largest value that an operator compares with a limit."""
        if not (highest > 0 or lowest < 0):
            return
        if limit == 0:
            self.one_sided += lowest >= 0 or highest <= 0
        elif limit > highest > 0:
            self.above.append(limit / highest)
        elif limit < lowest < 0:
            self.above.append(limit / lowest)
        elif 0 < limit < lowest <= LARGEST_SHRINKING * limit:
            self.below.append(lowest / limit)
        elif 0 > limit > highest >= LARGEST_SHRINKING * limit:
            self.below.append(highest / limit)

    def note_near_zero(self, highest: float) -> None:
        """Note the largest value of an operator that is nearly a polynomial near zero."""
        if 0 < highest < NEAR_ZERO:
            self.above.append(CURVES / highest)

    def note_both(self, lowest: float, highest: float) -> None:
        """Note the least and the largest difference of two tensors that are compared."""
        self.unanimous += lowest > 0 or highest < 0
