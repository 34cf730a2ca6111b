"""Size of the numbers of which a reference takes a softmax.

In single precision exp overflows above 88 and vanishes below −103.  A softmax subtracts the
largest number of a row first; a candidate that omits this is right on smaller numbers.
"""

from __future__ import annotations

import math
from typing import Any

import torch

LARGEST, LEAST = 89.0, -104.0
"""Numbers beyond which exp is infinite, or zero, in single precision."""

MARGIN = 1.5
"""Multiple of these that scaled numbers reach."""

LARGEST_FACTOR = 1024.0
"""Factors above this are not tried: the inputs would have little in common with the problem's."""

MOST_POSITIONS = 4096
"""Queries and keys of an attention of which the scores are computed."""

_SOFTMAXES = frozenset(
    {"aten::_log_softmax", "aten::_safe_softmax", "aten::_softmax", "aten::logsumexp"}
)
_ATTENTION = "aten::_scaled_dot_product"


def missed(name: str, args: Any, kwargs: Any) -> float | None:
    """Factor on the numbers of an operator with which exp of some overflows, or exp of a
    whole row vanishes; None if that is so already, or if the operator is no softmax.
    """
    if name in _SOFTMAXES:
        values, along = args[0], args[1]
    elif name.startswith(_ATTENTION):
        values, along = _scores(args[0], args[1], kwargs.get("scale")), -1
    else:
        return None
    if not values.is_floating_point() or not values.numel():
        return None
    tops = values.detach().float().amax(along)
    tops = tops[tops.isfinite()]
    if not tops.numel():
        return None
    least, most = (float(each) for each in torch.aminmax(tops))
    factors = [
        MARGIN * limit / top for limit, top in ((LARGEST, most), (LEAST, least)) if top * limit > 0
    ]
    factor = min(factors, default=math.inf)
    return factor if MARGIN < factor <= LARGEST_FACTOR else None


def factors(smallest: float) -> tuple[float, float]:
    """Factors on inputs to try: numbers may grow with their square, as products do."""
    return math.sqrt(smallest), smallest


def _scores(queries: torch.Tensor, keys: torch.Tensor, scale: float | None) -> torch.Tensor:
    """Scores of the first head of an attention, without its mask."""
    one, other = (x.detach().flatten(0, -3)[0, :MOST_POSITIONS].float() for x in (queries, keys))
    return one @ other.mT * (queries.shape[-1] ** -0.5 if scale is None else scale)
