"""Guards of the current GPU, copies to the device of a tensor, waits, and the number of processors,
on a device that has no GPU: `with torch.cuda.device(x.device)` around a launch, or `with
torch.get_device_module().device(x.device)`, `torch.cuda.set_device(x.device)`,
`sizes.cuda(x.device)`, `torch.cuda.synchronize()`,
`torch.cuda.get_device_properties(x.device).multi_processor_count`.

On a GPU such a guard does nothing if the tensor is on the current device, so it does nothing for
tensors of the CPU, nor for the GPU that `torch.cuda.current_device()` names, to which candidates
return; copies to the CPU are there already, and its work is done.  Grids of persistent
kernels depend on the number of processors, which is that of the host's cores.  Anything that needs
a GPU still raises, and the evaluation is `needs_gpu`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

NO_DEVICE = -1
"""Index for which torch does not change the current GPU."""

CURRENT = 0
"""Index of the current GPU, as candidates are told."""


def install() -> None:
    """Make these functions accept the CPU; the first the index None of a tensor there, too."""
    guard: Any = torch.cuda.device
    original = guard.__init__

    def accept(self: Any, device: Any) -> None:
        original(self, NO_DEVICE if _is_cpu(device) or _is_current(device) else device)

    copied: Any = torch.Tensor.cuda

    def copy(self: torch.Tensor, device: Any = None, *args: Any, **kwargs: Any) -> torch.Tensor:
        if device is not None and _is_cpu(device):
            return self
        moved: torch.Tensor = copied(self, device, *args, **kwargs)
        return moved

    chosen: Any = torch.cuda.set_device

    def choose(device: Any) -> None:
        if not (_is_cpu(device) or _is_current(device)):
            chosen(device)

    waited: Any = torch.cuda.synchronize

    def wait(device: Any = None) -> None:
        if not _is_cpu(device):
            waited(device)

    described: Any = torch.cuda.get_device_properties

    def describe(device: Any = None) -> Any:
        return _Cores(described, device)

    guard.__init__ = accept
    torch.cpu.device = guard  # type: ignore[attr-defined]
    torch.Tensor.cuda = copy  # type: ignore[assignment]
    torch.cuda.set_device = choose
    torch.cuda.synchronize = wait
    torch.cuda.get_device_properties = describe
    torch.cuda.current_device = lambda: CURRENT


def _is_cpu(device: Any) -> bool:
    return device is None or (
        isinstance(device, str | torch.device) and torch.device(device).type == "cpu"
    )


def _is_current(device: Any) -> bool:
    if isinstance(device, str | torch.device):
        named = torch.device(device)
        return named.type == "cuda" and named.index == CURRENT
    return bool(device == CURRENT)


class _Cores:
    """The number of the host's cores; other properties of a GPU raise torch's error."""

    def __init__(self, described: Any, device: Any) -> None:
        self.multi_processor_count = os.cpu_count() or 1
        self._ask: Callable[[], Any] = lambda: described(device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ask(), name)
