"""Choice of PyTorch's own convolutions in fp64 in place of cuDNN's, where they are faster.

cuDNN has few kernels in fp64.  PyTorch's own copy the windows of the inputs into a matrix and
multiply it by cuBLAS, which uses the tensor cores: 456 → 62 ms (KernelBench 2/77), 387 → 55 (2/78),
2.8 → 0.25 s (1/68), but 5 → 32 ms (2/23) on an H200.  Recurrent networks are slower without cuDNN.
So both are timed when the problem is described.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from workers.shims.problem.answers import true_answer
from workers.shims.problem.answers.true_answer import Truth
from workers.shims.problem.reference_session import seconds

FROM_S = 5e-3
"""Time of a call in seconds from which on the other convolutions are tried."""

GAIN = 0.8
"""Share of cuDNN's time below which they are chosen: they take more memory."""

_CONVOLUTION = torch.nn.modules.conv._ConvNd


def are_faster(model: Any, inputs: list[Any], truth: Truth, device: torch.device) -> bool:
    """Test whether the model's twin is faster without cuDNN, which has computed it before; False
    where memory does not suffice, or PyTorch has no such convolution.  `inputs`: those of a call,
    or of a piece of it.
    """
    convolves = isinstance(model, torch.nn.Module) and any(
        isinstance(each, _CONVOLUTION) for each in model.modules()
    )
    if device.type != "cuda" or not convolves or truth is Truth.OWN:
        return False
    [usual_s] = _times_s(model, inputs, truth, device, calls=1, plain=False)
    if usual_s < FROM_S:
        return False
    try:
        times_s = _times_s(model, inputs, truth, device, calls=2, plain=True)
        return min(times_s) < GAIN * usual_s
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return False
    except Exception:  # noqa: BLE001 (each operation has its own way to say that it lacks a form)
        return False


def _times_s(
    model: Any, inputs: list[Any], truth: Truth, device: torch.device, *, calls: int, plain: bool
) -> list[float]:
    """Seconds of each of some calls of the model's twin."""
    twin, found = true_answer.twin(model, truth, plain=plain), []
    for _ in range(calls):
        given = true_answer.widened(inputs, truth)
        found.append(seconds(device, functools.partial(true_answer.call, twin, given, truth)))
    return found
