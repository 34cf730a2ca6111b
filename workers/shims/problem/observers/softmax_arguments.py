"""Size of the numbers of which a reference takes a softmax, a softplus or a log-sigmoid, or
exponentials after it has subtracted a maximum.

In single precision exp overflows above 88 and vanishes below −103.  A softmax subtracts the
largest number of a row first, and a softplus is the identity on large ones; a candidate that omits
this is right on smaller numbers.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

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
_SOFT_LIMITS = {"aten::softplus": 1, "aten::log_sigmoid_forward": -1}
"""Functions of an element with exp of it, or of it negated."""

_ATTENTION = "aten::_scaled_dot_product"


Tops = tuple[torch.Tensor, torch.Tensor]
"""The least and the largest of some maxima, not read yet."""

_MAXIMA = frozenset({"aten::amax", "aten::max", "aten::maximum"})
_SAME = frozenset(
    f"aten::{name}" for name in ("detach", "expand", "squeeze", "unsqueeze", "view", "_unsafe_view")
)
"""Operators whose result has the numbers of their argument."""


class Shifts:
    """Maxima of a call, and differences to them: their exponentials do not overflow, and a
    candidate may leave the maxima out.
    """

    def __init__(self) -> None:
        self._maxima: Any = WeakIdKeyDictionary()
        self._shifted: Any = WeakIdKeyDictionary()
        """Differences, with their maxima."""

    def note(self, name: str, args: Any, found: Any) -> None:
        """Note an operator's result."""
        if name in _MAXIMA:
            self._maxima[found[0] if isinstance(found, list | tuple) else found] = True
        elif name in _SAME and args[0] in self._maxima:
            self._maxima[found] = True
        elif name == "aten::sub" and isinstance(args[1], torch.Tensor) and args[1] in self._maxima:
            self._shifted[found] = args[1]

    def missed(self, name: str, args: Any) -> Tops | None:
        """Numbers as `missed` returns them, for an exponential of a difference."""
        if name not in ("aten::exp", "aten::exp_") or args[0] not in self._shifted:
            return None
        return _of_finite(self._shifted[args[0]].detach().float())


def missed(name: str, args: Any, kwargs: Any) -> Tops | None:
    """The least and the largest of the maxima of an operator with an exp of numbers; None for any
    other.
    """
    if name in _SOFT_LIMITS and args[0].numel():
        most = (_SOFT_LIMITS[name] * args[0].detach().float()).amax()
        return torch.zeros_like(most), most
    if name in _SOFTMAXES:
        values, along = args[0], args[1]
    elif name.startswith(_ATTENTION):
        values, along = _scores(args[0], args[1], kwargs.get("scale")), -1
    else:
        return None
    if not values.is_floating_point() or not values.numel():
        return None
    return _of_finite(values.detach().float().amax(along))


def _of_finite(tops: torch.Tensor) -> Tops | None:
    """The least and the largest of those that are finite; infinities if none is."""
    if not tops.numel():
        return None
    are_finite = tops.isfinite()
    least = torch.where(are_finite, tops, math.inf).amin()
    return least, torch.where(are_finite, tops, -math.inf).amax()


def factor(least: float, most: float) -> float | None:
    """Factor on the least and the largest of some maxima with which exp of some number overflows,
    or exp of a whole row vanishes; None if that is so already, or if they are too far from it.
    """
    factors = [
        MARGIN * limit / top for limit, top in ((LARGEST, most), (LEAST, least)) if top * limit > 0
    ]
    found = min(factors, default=math.inf)
    return found if MARGIN < found <= LARGEST_FACTOR else None


def factors(smallest: float) -> tuple[float, float]:
    """Factors on inputs to try: numbers may grow with their square, as products do."""
    return math.sqrt(smallest), smallest


def _scores(queries: torch.Tensor, keys: torch.Tensor, scale: float | None) -> torch.Tensor:
    """Scores of the first head of an attention, without its mask."""
    one, other = (x.detach().flatten(0, -3)[0, :MOST_POSITIONS].float() for x in (queries, keys))
    return one @ other.mT * (queries.shape[-1] ** -0.5 if scale is None else scale)
