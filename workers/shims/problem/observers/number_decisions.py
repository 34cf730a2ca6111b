"""Decisions of a reference on single numbers: comparisons and clamps, as of a tensor's norm.

Inputs of zeros alone may turn them, which zeros in some rows do not.
"""

from __future__ import annotations

from typing import Any

import torch

from workers.backends.support.dispatch_mode import Watching
from workers.shims.problem.observers import limited_operators

_READINGS = frozenset(
    f"aten::{name}"
    for name in (
        *("_local_scalar_dense", "_unique2", "equal", "is_nonzero", "masked_select", "nonzero"),
        *("unique_consecutive", "unique_dim"),
    )
)
"""Operators that give Python numbers of a tensor, or a size that depends on them."""

_COMPARISONS = frozenset(limited_operators.ORDERS) | limited_operators.EQUALITIES
_LIMITS = limited_operators.CLAMPS | {"aten::maximum", "aten::minimum"}


def is_reading(name: str, args: Any, found: Any) -> bool:
    """Test for an operator on whose result Python code may decide, or that copies to another
    device, where numbers are read.
    """
    if name == "aten::_to_copy":
        return isinstance(found, torch.Tensor) and found.device != args[0].device
    if name == "aten::index":
        indices = [each for each in args[1] if isinstance(each, torch.Tensor)]
        return any(each.dtype in (torch.bool, torch.uint8) for each in indices)
    return name in _READINGS


def is_decision(name: str, args: Any) -> bool:
    """Test for an operator that decides on a single floating-point number."""
    number: Any = args[0] if args else None
    is_number = (
        isinstance(number, torch.Tensor) and number.is_floating_point() and number.numel() == 1
    )
    return is_number and (name in _LIMITS or name in _COMPARISONS)


class NumberDecisions(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that records the results of comparisons of single floating-point numbers, and
    whether a clamp changes one, in order.
    """

    def __init__(self) -> None:
        """Nothing has been decided yet."""
        super().__init__()
        self.decisions: list[bool] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name: str = func._schema.name
        if not is_decision(name, args):
            return func(*args, **(kwargs or {}))
        before = float(args[0]) if name in _LIMITS else None
        found = func(*args, **(kwargs or {}))
        if found.numel() == 1:
            self.decisions.append(bool(found) if before is None else float(found) != before)
        return found
