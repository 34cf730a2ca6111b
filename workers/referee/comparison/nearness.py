"""Acceptance of outputs that are near the reference's own outputs, without their
expected outputs in fp64.

With the answer x, the reference's own answer B and the expected output R, |x − R| ≤ |x − B| + |B −
R|.  The limit for an answer follows the error |B − R| of the reference
(correctness.ComparedOutput): the larger that error, the more room remains beyond it.  An answer
within the room left by the least error seen in some calls is therefore within the limits in every
call in which the reference errs as much or more.

An fp64 convolution takes twenty times as long as its fp32 form (H200), and a call has to be
computed in fp32 anyway. An answer that is not near is compared with the expected output, as are
all answers of the first calls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from workers.protocol.roundoff import FLOORS, is_inexact
from workers.referee.comparison.correctness import (
    BEYOND_EAGER,
    GROSS_L2,
    GROSS_MAX,
    ComparedOutput,
    Rule,
    closeness,
)
from workers.referee.comparison.output_errors import AT_ONCE, finite

TRUE_CALLS = 3
"""Calls compared with expected outputs before the reference's errors count as known."""

MARGIN = 0.5
"""Share of the least error seen that the reference is assumed to have in every other call: over
many elements its relative L2 error varies by a few percent between draws.
"""

LARGE_ERROR = 0.1
"""Relative L2 error of the reference from which on the size of its own answer is no
estimate of the expected one.
"""

SUMMING = 1.01
"""Factor on distances, which are summed in fp32."""

FAR_L2 = 0.5
"""Relative L2 distance from which on an answer is wrong: |x − R| ≥ |x − B| − |B − R|.  Where
`Nearness.applies()`, the last term is less than LARGE_ERROR, and the limit for the first no
more than that and BEYOND_EAGER.
"""


@dataclass
class Nearness:
    """Errors of one reference, and the room that they leave."""

    rule: Rule
    calls: int = 0
    """Calls in which the reference's errors are known."""
    least: dict[int, tuple[float, float]] = field(default_factory=dict)
    """By output: least relative L2 error, and least of the largest error over rms."""
    most: float = 0.0
    """Largest relative L2 error of any output."""

    def note(self, outputs: Sequence[ComparedOutput], call: int) -> None:
        """Record the reference's errors in a call that was compared with its expected outputs."""
        self.calls += 1
        for output in outputs:
            errors = output.errors[call]
            l2, largest = finite(errors.base_l2), finite(errors.base_largest)
            before = self.least.get(output.index, (math.inf, math.inf))
            self.least[output.index] = min(before[0], l2), min(before[1], largest)
            self.most = max(self.most, l2)

    @property
    def missing(self) -> int:
        """Number of calls that still have to be compared with expected outputs."""
        return max(0, TRUE_CALLS - self.calls)

    def applies(self, *, gross: bool = False) -> bool:
        """Test whether distances from the reference's own answer can decide.  They cannot with a
        requested tolerance, which applies to every element of the expected output.  `gross`: by the
        coarse limits for unusual inputs, for which one call says enough of the reference.
        """
        known = self.calls > 0 if gross else not self.missing
        return known and self.most < LARGE_ERROR and self.rule.tolerance is None

    def are_near(
        self, got: Sequence[torch.Tensor], own: Sequence[torch.Tensor], *, gross: bool = False
    ) -> list[bool]:
        """Per call, whether every output is near the reference's own.  `got`, `own`:
        (calls, elements) per output, in its type.  `gross`: by the coarse limits for
        unusual inputs (correctness.Rule.gross).
        """
        per_output = [
            self._near(index, *pair, gross=gross)
            for index, pair in enumerate(zip(got, own, strict=True))
        ]
        return [all(call) for call in zip(*per_output, strict=True)]

    def are_far(self, got: Sequence[torch.Tensor], own: Sequence[torch.Tensor]) -> list[bool]:
        """Per call, whether some output is so far from the reference's own that it
        is wrong whatever is expected.
        """
        per_output = [_far(*pair) for pair in zip(got, own, strict=True)]
        return [any(call) for call in zip(*per_output, strict=True)]

    def decided(
        self, got: Sequence[torch.Tensor], own: Sequence[torch.Tensor]
    ) -> list[bool | None]:
        """Per call, whether all outputs are right, by their distances from the reference's own;
        None if those do not tell.
        """
        return [
            False if far else near or None
            for far, near in zip(self.are_far(got, own), self.are_near(got, own), strict=True)
        ]

    def _near(self, index: int, got: torch.Tensor, own: torch.Tensor, *, gross: bool) -> list[bool]:
        if not is_inexact(got.dtype):
            found: list[bool] = (got == own).all(dim=1).tolist()
            return found
        room_l2, room_largest = self._room(index, got.dtype)
        if gross:
            room_l2, room_largest = (
                max(room_l2, MARGIN * GROSS_L2),
                max(room_largest, MARGIN * GROSS_MAX),
            )
        scale = SUMMING / (1 - self.most / MARGIN)
        return [
            l2 * scale <= room_l2 and largest * scale <= room_largest
            for l2, largest in distances(got, own)
        ]

    def _room(self, index: int, dtype: torch.dtype) -> tuple[float, float]:
        """Relative L2 distance, and largest distance over rms, within which an answer is right for
        every error of the reference above MARGIN times the least one.

        The room beyond an error b is limit(b) − b.  It decreases with b while the floor is the
        limit, and increases from b = floor/close on, where it is (close − 1)·b.
        """
        spread = self.rule.spread[index] if self.rule.spread else (0.0, 0.0)
        floors, close = FLOORS.get(dtype, (0.0, 0.0)), closeness(dtype)
        l2, largest = (
            (close[norm] - 1)
            * max(MARGIN * self.least[index][norm], spread[norm], floors[norm] / close[norm])
            for norm in range(2)
        )
        return min(l2, BEYOND_EAGER), largest


def _far(got: torch.Tensor, own: torch.Tensor) -> list[bool]:
    """Per call, for one output; never of an output in whole numbers or truth values, of
    which rounding may decide some.
    """
    if not is_inexact(got.dtype):
        return [False] * len(got)
    return [l2 > FAR_L2 for l2, _ in distances(got, own)]


def distances(got: torch.Tensor, own: torch.Tensor) -> Iterator[tuple[float, float]]:
    """Per call: relative L2 distance, and the largest distance over the root mean square of `own`;
    NaN if an element is not finite.  `got`, `own`: (calls, elements).
    """
    calls, elements = got.shape
    if not elements:
        return iter([(0.0, 0.0)] * calls)
    columns = max(1, AT_ONCE // calls)
    pairs = zip(*(torch.split(each, columns, dim=1) for each in (got, own)), strict=True)
    parts = [torch.stack(_norms(*pair)) for pair in pairs]
    sums = torch.stack(parts)  # (parts, 3, calls)
    l2, norm = torch.linalg.vector_norm(sums[:, :2].double(), dim=0)
    largest = sums[:, 2].amax(dim=0).double()
    norm = norm.clamp(min=torch.finfo(torch.float64).tiny)
    return zip((l2 / norm).tolist(), (largest / norm * elements**0.5).tolist(), strict=True)


def _norms(got: torch.Tensor, own: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Per call: L2 norms of the difference and of `own`, and the largest difference."""
    if got.dtype not in (torch.float64, torch.complex128):
        wide = torch.complex64 if got.is_complex() else torch.float32
        got, own = got.to(wide), own.to(wide)
    apart = got - own
    norm = torch.linalg.vector_norm
    return norm(apart, dim=1), norm(own, dim=1), norm(apart, ord=float("inf"), dim=1)
