"""Error of a reference's answer if its fp32 products round their operands to TF32.

PyTorch allows that in convolutions on a GPU unless a program forbids it, and in other products if a
program asks for it (workers/protocol/precision_flags.py).  The library decides by shape and layout:
with three input channels cuDNN computes a convolution in fp32, and in TF32 once the channels are
the last dimension or it is called as another function (KernelBench 1/55, 1/59; H200).  A candidate
that calls the library so has an error that both sides are allowed, although the reference happens
not to have it.  So has a Triton kernel on the CPU device, where the library computes in fp32 and
`tl.dot` rounds as on a GPU; and one on a GPU, where `tl.dot` cuts bits off and cuBLAS rounds, so
that errors add up in a loss that average out in the reference's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from typing import Any

import torch

from workers.backends.support.dispatch_mode import Watching
from workers.protocol import layout
from workers.protocol.problem_spec import Spread
from workers.protocol.roundoff import TF32_DROPPED_BITS, errors, is_inexact
from workers.shims.problem.observers.one_signed_products import FACTORS

CUT_SHARE = 0.4
"""Part of the error of operands that are cut off which counts: of a product without a sum behind it
that is the error of rounded ones, and four times as much is right.
"""

Narrow = Callable[[torch.Tensor], torch.Tensor]


def place_of(func: Any) -> str:
    """Name of the setting of precision_flags.PLACES for a product of torch's; "" for any other
    operator.
    """
    name = func._schema.name.removesuffix("_")
    if "convolution" in name:
        return "convolution"
    return "matmul" if name in FACTORS else ""


class RoundedProducts(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode in which products of fp32 have operands of TF32."""

    def __init__(self, places: Collection[str], narrow: Narrow) -> None:
        """`places`: those of `place_of` in which they have; `narrow`: to TF32."""
        super().__init__()
        self._places, self._narrow = places, narrow

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        place = place_of(func)
        if place and place in self._places:
            factors = FACTORS.get(func._schema.name.removesuffix("_"), (0, 1))
            args = [
                self._narrow(each) if at in factors and _is_single(each) else each
                for at, each in enumerate(args)
            ]
        return func(*args, **(kwargs or {}))


def _is_single(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype == torch.float32


def _rounded(x: torch.Tensor) -> torch.Tensor:
    """A tensor of fp32 rounded to TF32, to nearest."""
    bits = x.clone().view(torch.int32).add_(1 << (TF32_DROPPED_BITS - 1))
    return bits.bitwise_and_(-1 << TF32_DROPPED_BITS).view(torch.float32)


def _cut(x: torch.Tensor) -> torch.Tensor:
    """A tensor of fp32 with the bits cut off that TF32 lacks."""
    return x.clone().view(torch.int32).bitwise_and_(-1 << TF32_DROPPED_BITS).view(torch.float32)


def error(call: Callable[[], Any], places: Collection[str]) -> Spread:
    """Error per output, zero for an exact one.  `call`: makes a call of the reference on the same
    inputs each time; `places`: see RoundedProducts.
    """
    own = list(layout.values(copy.deepcopy(call())))
    rounded = _errors(call, places, _rounded, own)
    cut = _errors(call, places, _cut, own)
    return widest(rounded, tuple((CUT_SHARE * l2, CUT_SHARE * most) for l2, most in cut))


def _errors(
    call: Callable[[], Any], places: Collection[str], narrow: Narrow, own: list[Any]
) -> Spread:
    with RoundedProducts(places, narrow):
        answer = call()
    return tuple(
        (
            errors(mine, theirs)
            if isinstance(mine, torch.Tensor) and is_inexact(mine.dtype)
            else (0.0, 0.0)
        )
        for mine, theirs in zip(layout.values(answer), own, strict=True)
    )


def widest(one: Spread, other: Spread) -> Spread:
    """The larger of two errors for each output; either may be empty."""
    if not one or not other:
        return one or other
    return tuple((max(a[0], b[0]), max(a[1], b[1])) for a, b in zip(one, other, strict=True))
