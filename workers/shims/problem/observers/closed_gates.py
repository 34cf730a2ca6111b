"""Gates that are closed: single zeros by which a reference multiplies a tensor.

A candidate may leave out work that such a zero hides.  A single zero that is added, compared or a
limit hides nothing.
"""

from __future__ import annotations

from typing import Any

import torch

from workers.backends.support.dispatch_mode import Watching

_PRODUCTS = frozenset({"aten::addcmul", "aten::addcmul_", "aten::mul", "aten::mul_"})
_WEIGHTED = frozenset({"aten::lerp", "aten::lerp_"})


class ClosedGates(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that finds out whether a call multiplies a tensor by a single zero."""

    def __init__(self) -> None:
        """Nothing has been found yet."""
        super().__init__()
        self.found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        if not self.found and name in _PRODUCTS:
            self.found = _is_closed(*args[-2:])
        elif not self.found and name in _WEIGHTED:
            self.found = _is_closed(args[1], args[2])
        return func(*args, **(kwargs or {}))


def _is_closed(one: Any, other: Any) -> bool:
    """Test whether one of two factors is a single zero, and the other has several elements."""
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return False
    gate, hidden = (one, other) if one.numel() == 1 else (other, one)
    is_gate = gate.numel() == 1 < hidden.numel() and gate.is_floating_point()
    return is_gate and float(gate) == 0
