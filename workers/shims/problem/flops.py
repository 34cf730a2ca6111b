"""FLOPs of one call, by torch's own formulas.

torch.utils.flop_counter.FlopCounterMode counts the same, but imports torch's
compiler (dispatch.py).
"""

from __future__ import annotations

from typing import Any

from torch.utils.flop_counter import flop_registry

from workers.backends.support.dispatch_mode import Watching
from workers.shims.problem.tf32_convolutions import is_convolution


class FlopCounter(Watching):  # type: ignore[no-untyped-call]
    """Counter of the FLOPs of products, convolutions and attention; a multiply-add
    counts as two.
    """

    def __init__(self) -> None:
        """Starts at zero."""
        super().__init__()
        self.total = 0
        self.convolves = False
        """True after a convolution."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.convolves |= is_convolution(func)
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            self.total += int(formula(*args, **(kwargs or {}), out_val=result))
        return result
