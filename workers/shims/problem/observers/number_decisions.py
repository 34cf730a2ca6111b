"""Decisions of a reference on single numbers: comparisons and clamps, as of a tensor's norm.

Inputs of zeros alone may turn them, which zeros in some rows do not.
"""

from __future__ import annotations

from typing import Any

import torch

from workers.backends.support.dispatch_mode import Watching
from workers.shims.problem.observers import limited_operators

_COMPARISONS = frozenset(limited_operators.ORDERS) | limited_operators.EQUALITIES
_LIMITS = limited_operators.CLAMPS | {"aten::maximum", "aten::minimum"}


class NumberDecisions(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that records the results of comparisons of single floating-point numbers, and
    whether a clamp changes one, in order.
    """

    def __init__(self) -> None:
        """Nothing has been decided yet."""
        super().__init__()
        self.decisions: list[bool] = []
        self.invents = False
        """Always false: no conversion is looked at."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name: str = func._schema.name
        number: Any = args[0] if args else None
        is_number = (
            isinstance(number, torch.Tensor) and number.is_floating_point() and number.numel() == 1
        )
        before = float(number) if is_number and name in _LIMITS else None
        found = func(*args, **(kwargs or {}))
        if is_number and name in _COMPARISONS and found.numel() == 1:
            self.decisions.append(bool(found))
        elif before is not None and found.numel() == 1:
            self.decisions.append(float(found) != before)
        return found
