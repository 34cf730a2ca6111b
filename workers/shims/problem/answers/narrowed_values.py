"""Values in a narrower type, and errors of the same size that serve as controls."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from workers.protocol.product_errors import LEFT_OUT, SCALED, Format

CHUNK = 1 << 24
"""Elements that are narrowed at once."""

_EXPLICIT_BITS = 52
"""Bits of the significand of fp64, without the hidden one."""

Narrow = Callable[[torch.Tensor, int], torch.Tensor]
"""Function that narrows a value in fp64; the second argument numbers the values of a call."""


def zeros(value: torch.Tensor, _: int) -> torch.Tensor:
    """Zeros in place of a value."""
    return torch.zeros_like(value)


def narrowing(to: Format, control: int = 0) -> Narrow:
    """Function that narrows a factor; that of a control errs by as much, in a random direction,
    which is the same for the same element in each call.
    """

    def narrow(factor: torch.Tensor, number: int) -> torch.Tensor:
        found = factor.clone(memory_format=torch.contiguous_format)
        generator = torch.Generator(found.device).manual_seed(control << 16 | number)
        for part in torch.split(found.view(-1), CHUNK):
            near, far = neighbours(part, to)
            if control:
                sides = torch.rand(part.shape, generator=generator, device=part.device) < 0.5
                near = torch.where(sides, near, far)
            part.copy_(near)
        return found.view(factor.shape)

    return narrow


def neighbours(wide: torch.Tensor, to: Format) -> tuple[torch.Tensor, torch.Tensor]:
    """A factor in the narrower type; and errors that are as large on average, and uncorrelated
    with those once one of both is chosen at random.
    """
    if to == LEFT_OUT:
        return torch.zeros_like(wide), 2 * wide
    if to == SCALED:
        part = math.ldexp(1.0, -to.bits)
        return (1 + part) * wide, (1 - part) * wide
    dropped = _EXPLICIT_BITS - to.bits
    bits = wide.view(torch.int64)
    if to.cuts:
        cut = bits & (-1 << dropped)
        further = (cut + (1 << dropped)).view(torch.float64)
        return cut.view(torch.float64), 2 * wide - further
    half = (1 << (dropped - 1)) - 1 + (bits >> dropped & 1)
    near = (bits + half & (-1 << dropped)).view(torch.float64)
    return near, 2 * wide - near
