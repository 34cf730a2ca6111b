"""Guards of the current GPU on a device that has none: `with
torch.cuda.device(x.device)` around a launch.

On a GPU such a guard does nothing if the tensor is on the current device, so it does nothing for
tensors of the CPU. Anything that needs a GPU still raises, and the evaluation is `needs_gpu`.
"""

from __future__ import annotations

from typing import Any

import torch

NO_DEVICE = -1
"""Index for which torch does not change the current GPU."""


def install() -> None:
    """Make `torch.cuda.device` accept the CPU, and the index None of a tensor there."""
    guard: Any = torch.cuda.device
    original = guard.__init__

    def accept(self: Any, device: Any) -> None:
        original(self, NO_DEVICE if _is_cpu(device) else device)

    guard.__init__ = accept


def _is_cpu(device: Any) -> bool:
    return device is None or (
        isinstance(device, str | torch.device) and torch.device(device).type == "cpu"
    )
