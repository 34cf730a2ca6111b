"""Products of matrices whose elements all have one sign.

The errors of rounding the factors average out in them: with numbers from 0 to 1 and an inner size
of 4,096 a product in half precision is as near as one in single precision has to be.
"""

from __future__ import annotations

from typing import Any

import torch

from workers.backends.support.dispatch_mode import Watching

FACTORS = {
    "aten::addbmm": (1, 2),
    "aten::addmm": (1, 2),
    "aten::addmv": (1, 2),
    "aten::baddbmm": (1, 2),
    "aten::bmm": (0, 1),
    "aten::convolution": (0, 1),
    "aten::dot": (0, 1),
    "aten::mm": (0, 1),
    "aten::mv": (0, 1),
}
"""Places of the two factors among the arguments."""

ATTENTION = "aten::_scaled_dot_product"
"""Prefix of the names of attention: its factors are the first three arguments."""


class OneSignedProducts(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that counts them in a call, and looks at nothing else."""

    def __init__(self) -> None:
        """None so far."""
        super().__init__()
        self.averaging = 0
        self.invents = False
        """False: of conversions to integers nothing is known."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.averaging += count(func._schema.name, args)
        return func(*args, **(kwargs or {}))


def count(name: str, args: Any) -> int:
    """Number of products of an operator whose factors have one sign each; the weights of an
    attention always do.
    """
    if name.startswith(ATTENTION):
        queries, keys, values = args[:3]
        return (_has_one_sign(queries) and _has_one_sign(keys)) + _has_one_sign(values)
    return int(name in FACTORS and all(_has_one_sign(args[at]) for at in FACTORS[name]))


def _has_one_sign(x: Any) -> bool:
    if not isinstance(x, torch.Tensor) or not x.is_floating_point() or not x.numel():
        return False
    lowest, highest = torch.aminmax(x.detach())
    return bool(((lowest >= 0) & (highest > 0)) | ((highest <= 0) & (lowest < 0)))
