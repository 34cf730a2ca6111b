"""Error of a reference's answer if its fp32 convolutions round their operands to TF32.

PyTorch allows that on a GPU unless a program forbids it (workers/protocol/precision_flags.py), and
cuDNN decides by shape and layout: with three input channels it computes a convolution in fp32, and
in TF32 once the channels are the last dimension or it is called as another function (KernelBench
1/55, 1/59; H200).  A candidate that calls the library so has an error that both sides are allowed,
although the reference happens not to have it.  So has a Triton kernel on the CPU device, where the
library convolves in fp32 and `tl.dot` rounds as on a GPU.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from workers.backends.support.dispatch_mode import Watching
from workers.protocol import layout
from workers.protocol.problem_spec import Spread
from workers.protocol.roundoff import errors, is_inexact

DROPPED_BITS = 13
"""Bits of the significand of fp32 that TF32 lacks."""


def is_convolution(func: Any) -> bool:
    """Test whether an operator of torch is a convolution."""
    return "convolution" in func._schema.name


class RoundedConvolutions(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode in which fp32 convolutions have operands of TF32."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if is_convolution(func):
            args = (*map(_rounded, args[:2]), *args[2:])  # input and weight
        return func(*args, **(kwargs or {}))


def _rounded(x: Any) -> Any:
    """A tensor of fp32 rounded to TF32, to nearest; any other value as it is."""
    if not isinstance(x, torch.Tensor) or x.dtype != torch.float32:
        return x
    bits = x.clone().view(torch.int32)
    return bits.add_(1 << (DROPPED_BITS - 1)).bitwise_and_(-1 << DROPPED_BITS).view(torch.float32)


def error(call: Callable[[], Any]) -> Spread:
    """Error per output, zero for an exact one.  `call`: makes a call of the
    reference on the same inputs each time.
    """
    own = copy.deepcopy(call())
    with RoundedConvolutions():
        answer = call()
    return tuple(
        (
            errors(mine, theirs)
            if isinstance(mine, torch.Tensor) and is_inexact(mine.dtype)
            else (0.0, 0.0)
        )
        for mine, theirs in zip(layout.values(answer), layout.values(own), strict=True)
    )


def widest(one: Spread, other: Spread) -> Spread:
    """The larger of two errors for each output; either may be empty."""
    if not one or not other:
        return one or other
    return tuple((max(a[0], b[0]), max(a[1], b[1])) for a, b in zip(one, other, strict=True))
