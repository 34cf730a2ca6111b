"""Guards of the current GPU, and copies to the device of a tensor, on a device that has none:
`with torch.cuda.device(x.device)` around a launch, `sizes.cuda(x.device)`.

On a GPU such a guard does nothing if the tensor is on the current device, so it does nothing for
tensors of the CPU; and what is copied to the CPU is there already.  Anything that needs a GPU
still raises, and the evaluation is `needs_gpu`.
"""

from __future__ import annotations

from typing import Any

import torch

NO_DEVICE = -1
"""Index for which torch does not change the current GPU."""


def install() -> None:
    """Make `torch.cuda.device` and `Tensor.cuda` accept the CPU; the former the index None of a
    tensor there, too.
    """
    guard: Any = torch.cuda.device
    original = guard.__init__

    def accept(self: Any, device: Any) -> None:
        original(self, NO_DEVICE if _is_cpu(device) else device)

    copied: Any = torch.Tensor.cuda

    def copy(self: torch.Tensor, device: Any = None, *args: Any, **kwargs: Any) -> torch.Tensor:
        if device is not None and _is_cpu(device):
            return self
        moved: torch.Tensor = copied(self, device, *args, **kwargs)
        return moved

    guard.__init__ = accept
    torch.Tensor.cuda = copy  # type: ignore[assignment]


def _is_cpu(device: Any) -> bool:
    return device is None or (
        isinstance(device, str | torch.device) and torch.device(device).type == "cpu"
    )
