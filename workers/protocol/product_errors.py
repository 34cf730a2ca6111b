"""Errors that narrow products, or terms that are left out, cause in an answer, beside its own.

The reference's process predicts the former (workers/shims/problem/answers/narrow_products.py) and
sends sums over an output's elements; the referee judges by them
(workers/referee/probes/narrow_products.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from app.domain import evidence
from workers.protocol.layout import UnsupportedError


class Format(NamedTuple):
    """A narrower type of floating-point numbers."""

    name: str
    bits: int
    """Bits of its significand, without the hidden one."""
    cuts: bool
    """True if further bits are cut off, False if the number is rounded to the nearest."""


HALF = Format("float16 or tf32", 10, cuts=False)
BRAIN = Format("bfloat16", 7, cuts=False)
CUT = Format("tf32, cut off", 10, cuts=True)
"""Tensor cores read TF32 out of the bits of fp32; a conversion rounds."""
LEFT_OUT = Format(evidence.LEFT_OUT, 0, cuts=False)
"""Zeros in place of the results of faint operators."""
SCALED = Format(evidence.SCALED, 13, cuts=False)
"""A product that is larger by a part of itself, 2 to the power of minus `bits`."""


class Prediction(NamedTuple):
    """A way to narrow all products."""

    format: Format
    parts: str
    """`first`, `second` or `both` factors, or `all`: the addend and the result, too; the
    `result` alone; `largest`: both factors of one product only.
    """


PREDICTIONS = (
    Prediction(HALF, "first"),
    Prediction(HALF, "second"),
    Prediction(HALF, "both"),
    Prediction(HALF, "all"),
    Prediction(HALF, "largest"),
    Prediction(BRAIN, "first"),
    Prediction(BRAIN, "second"),
    Prediction(BRAIN, "both"),
    Prediction(BRAIN, "all"),
    Prediction(BRAIN, "largest"),
    Prediction(CUT, "both"),
    Prediction(LEFT_OUT, "result"),
    Prediction(HALF, "result"),
    Prediction(BRAIN, "result"),
    Prediction(SCALED, "result"),
)
"""In the order in which sums are sent; those of predictions that are not wanted are zero."""

OF_RESULTS = (Prediction(HALF, "result"), Prediction(BRAIN, "result"))
OF_LEFT_OUT = 1 << PREDICTIONS.index(Prediction(LEFT_OUT, "result"))
OF_SCALED = 1 << PREDICTIONS.index(Prediction(SCALED, "result"))
ALL = (1 << len(PREDICTIONS)) - 1 - OF_SCALED
FEW = OF_SCALED | sum(
    1 << bit
    for bit, each in enumerate(PREDICTIONS)
    if each.parts == "both" or each.format == LEFT_OUT
)
"""Bit masks of the predictions for terms that are left out and for scaled factors, of all but the
latter, and of those that are made where each takes long.
"""

MOST_OUTPUTS = 5
"""Most outputs that are looked at: their sums are sent as text."""


class Sums(NamedTuple):
    """Sums over elements of an output, of several calls once added."""

    elements: float = 0.0
    error: float = 0.0
    """Sum of the answer's errors."""
    error_squares: float = 0.0
    own: float = 0.0
    """Sum of the errors of the reference in its own precision."""
    own_squares: float = 0.0
    predicted: float = 0.0
    """Sum of the predicted errors."""
    predicted_squares: float = 0.0
    error_predicted: float = 0.0
    """Sum of products of an answer's error and the predicted one."""
    own_predicted: float = 0.0

    def plus(self, other: Sums) -> Sums:
        """Sums over the elements of both."""
        return Sums(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def checked(fields: Any) -> dict[int, list[Sums]]:
    """Sums by output, one for each of PREDICTIONS, from JSON written by the reference's process.
    Raises UnsupportedError, and the errors of JSON of another form.
    """
    found = {int(index): [Sums(*map(float, row)) for row in rows] for index, rows in fields}
    every = [number for rows in found.values() for sums in rows for number in sums]
    if not all(map(math.isfinite, every)) or not all(map(_is_complete, found.values())):
        raise UnsupportedError(f"not sums of errors: {str(fields)[:80]}")
    return found


def _is_complete(rows: Sequence[Sums]) -> bool:
    return len(rows) == len(PREDICTIONS)
