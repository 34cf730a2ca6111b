"""Maxima and minima of a reference, and how far they reach."""

from __future__ import annotations

from typing import Any

import torch

NAMES = frozenset(
    f"aten::{name}"
    for name in (
        "adaptive_max_pool2d",
        "adaptive_max_pool3d",
        "amax",
        "amin",
        "cummax",
        "cummin",
        "max",
        "max_pool2d_with_indices",
        "max_pool3d_with_indices",
        "min",
    )
)
"""Operators that begin with an infinity, in place of which zero is right for values of one sign."""

_MINIMA = frozenset({"aten::amin", "aten::cummin", "aten::min"})

REACHED = 0.5
"""Part of the range below zero that the least maximum reaches if any number but an infinity would
be wrong as a beginning.
"""


def are_shallow(name: str, values: Any, found: Any) -> torch.Tensor | None:
    """The answer, not read yet, of whether no maximum lies far below zero although values do; for
    minima, far above.  None for other operators.
    """
    if name not in NAMES or not values.is_floating_point() or not values.numel():
        return None
    extremes = found[0] if isinstance(found, list | tuple) else found
    sign = -1.0 if name in _MINIMA else 1.0
    least, reached = ((sign * x.detach().float()).amin() for x in (values, extremes))
    flag: torch.Tensor = (least < 0) & (reached > REACHED * least)
    return flag
