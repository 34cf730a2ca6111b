"""Results that PyTorch does not define: equal values among which a reference chooses, told apart at
random, and integers that it makes of NaN or infinity.

Which of several equal values is among the largest is not defined, and kernels choose another one
than the library does; except in a stable sort (`rounding.has_order`).  Rounding the inputs parts
equal ones, but not zeros, and not those that are made of equal ones; so the arguments of choosing
operators are rounded, too.
"""

from __future__ import annotations

from typing import Any

import torch

from workers.backends.support.dispatch_mode import Watching
from workers.protocol import layout
from workers.protocol.roundoff import is_inexact, unit
from workers.shims.problem.answers import rounding
from workers.shims.problem.observers import number_decisions

CHOICES = frozenset(
    f"aten::{name}" for name in ("argmax", "argmin", "kthvalue", "max", "min", "sort", "topk")
)
"""Operators that tell the places of some of many values."""


class BrokenTies(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode with random errors of a rounding in the arguments of choosing operators."""

    def __init__(self) -> None:
        """A mode for one call of a model."""
        super().__init__()
        self.were_met = False
        """True if an operator has chosen otherwise for these errors."""
        self.casts_no_number = False
        """True if integers were made of NaN or infinity."""
        self.may_choose = False
        """True if operators chose, or the next operators may depend on values: calls on other
        inputs may choose among equal ones.
        """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found = func(*args, **kwargs)
        name: str = func._schema.name
        self.casts_no_number |= _casts_no_number(args, found)
        self.may_choose |= name in CHOICES or number_decisions.is_reading(name, args, found)
        if not _may_be_parted(func, args, kwargs):
            return found
        parted = func(_parted(args[0]), *args[1:], **kwargs)
        self.were_met |= not all(map(torch.equal, _places(found), _places(parted)))
        return parted


def _casts_no_number(args: Any, found: Any) -> bool:
    """Test for whole numbers made of a tensor's elements, one of each, of which some are none."""
    if not isinstance(found, torch.Tensor) or is_inexact(found.dtype) or found.dtype == torch.bool:
        return False
    sources = (x for x in args if isinstance(x, torch.Tensor) and x.is_floating_point())
    return any(x.shape == found.shape and not bool(x.isfinite().all()) for x in sources)


def _may_be_parted(func: Any, args: Any, kwargs: Any) -> bool:
    """Test for an operator that chooses of several floats, in no order of equal ones."""
    if func._schema.name not in CHOICES:
        return False
    x = args[0]
    return (
        isinstance(x, torch.Tensor)
        and x.is_floating_point()
        and x.itemsize > 1
        and x.numel() > 1
        and not rounding.has_order(kwargs)
    )


def _places(found: Any) -> list[torch.Tensor]:
    every = layout.values([*found] if isinstance(found, tuple) else [found])
    return [x for x in every if isinstance(x, torch.Tensor) and not x.is_floating_point()]


def _parted(x: torch.Tensor) -> torch.Tensor:
    """The values with errors of a rounding of fp32 at most; zeros become less than others."""
    rounding = max(unit(x.dtype), unit(torch.float32))
    errors = rounding * (2 * torch.rand_like(x) - 1)
    sizes = torch.where((x != 0) & x.isfinite(), x.abs(), torch.inf)
    least = sizes.amin().clamp(max=1.0)
    return torch.where(x == 0, least * errors, x * (1 + errors))
