"""Device memory of a problem: an estimate before any is used, and a measurement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from workers.backends.support.dispatch_mode import Limited
from workers.backends.support.time_limit import TimeLimit
from workers.protocol import layout
from workers.protocol.control_channel import ESTIMATED_INPUTS

OUTPUTS, PARAMETERS = 4, 4
"""Copies of each, as ESTIMATED_INPUTS of the inputs, that exist at the same time while a problem is
described; copies in fp64 count as two.  If that is too little, the evaluation is repeated alone.
"""


LIMIT_S = 1.0
"""Time limit in seconds for running the problem's code on the meta device.  A recurrent network of
512 steps has 30,000 operations and took 11 s (KernelBench 3/35).
"""


def estimated_bytes(draw: Callable[[], Any], make: Callable[[], Any]) -> int:
    """Estimate of the memory in bytes that describing the problem takes, from running its code on
    torch's meta device, on which tensors have shapes and no memory.  0 if the code does not run
    there; too little if it takes long.

    `draw`: `get_inputs`; `make`: the constructor of the model, with its arguments.
    """
    try:
        with torch.device("meta"):
            inputs = draw()
        found = ESTIMATED_INPUTS * tensor_bytes(inputs)
    except Exception:  # noqa: BLE001 (the problem's code, which need not run on that device)
        return 0
    try:
        with torch.device("meta"), torch.no_grad(), TimeLimit(LIMIT_S), Limited():
            model = make()
            parameters = (
                [*model.parameters(), *model.buffers()]
                if isinstance(model, torch.nn.Module)
                else []
            )
            found += PARAMETERS * tensor_bytes(parameters)
            found += OUTPUTS * tensor_bytes(model(*inputs))
    except Exception:  # noqa: BLE001 (the same)
        return found
    return found


def tensor_bytes(value: Any) -> int:
    """Bytes of all tensors in a value, also in nested lists, tuples and dicts."""
    tensors = [leaf for leaf in layout.values(value) if isinstance(leaf, torch.Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class Peak:
    """Context manager that measures the peak of the device memory allocated by
    torch, beyond the initial amount.
    """

    def __init__(self, device: torch.device) -> None:
        """`device`: the device to be measured; 0 bytes are reported for the CPU."""
        self._device = device
        self._before = 0
        self.bytes = 0

    def __enter__(self) -> Peak:
        if self._device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            self._before = torch.cuda.memory_allocated()
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        if self._device.type == "cuda" and error is None:
            self.bytes = max(0, torch.cuda.max_memory_allocated() - self._before)
