"""FLOPs of one call, by torch's own formulas.

torch.utils.flop_counter.FlopCounterMode counts the same, but imports torch's compiler and eight hundred modules more: a
second in every process that begins."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class FlopCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Products, convolutions and attention, multiply and add as two; everything else counts for nothing."""

    def __init__(self) -> None:
        """Nothing counted."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No compiler runs here that would have to be kept away."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            self.total += int(formula(*args, **(kwargs or {}), out_val=result))
        return result
