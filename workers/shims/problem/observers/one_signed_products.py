"""Products of matrices whose elements all have one sign.

The errors of rounding the factors average out in them: with numbers from 0 to 1 and an inner size
of 4,096 a product in half precision is as near as one in single precision has to be.
"""

from __future__ import annotations

from typing import Any

import torch

from workers.backends.support.dispatch_mode import Watching
from workers.shims.problem.observers.later_numbers import LaterNumbers

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
        """Number of them, once the mode has been left."""
        self._later = LaterNumbers()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for flag in averaging(func._schema.name, args):
            self._later.add(self._note, flag)
        return func(*args, **(kwargs or {}))

    def __exit__(self, *error: Any) -> None:
        """Leave the mode, and read the numbers that it has looked at."""
        super().__exit__(*error)
        self._later.read()

    def _note(self, averages: float) -> None:
        self.averaging += bool(averages)


def averaging(name: str, args: Any) -> list[torch.Tensor]:
    """For each product of an operator the answer, not read yet, of whether its factors have one
    sign each; the weights of an attention always do.
    """
    if name.startswith(ATTENTION):
        queries, keys, values = args[:3]
        return [*_have_one_sign(queries, keys), *_have_one_sign(values)]
    return _have_one_sign(*(args[at] for at in FACTORS[name])) if name in FACTORS else []


def _have_one_sign(*factors: Any) -> list[torch.Tensor]:
    """The answer for one product; none for factors of other kinds."""
    for x in factors:
        if not isinstance(x, torch.Tensor) or not x.is_floating_point() or not x.numel():
            return []
    found = [_has_one_sign(x) for x in factors]
    return [found[0] if len(found) == 1 else found[0] & found[1]]


def _has_one_sign(x: torch.Tensor) -> torch.Tensor:
    lowest, highest = torch.aminmax(x.detach())
    return ((lowest >= 0) & (highest > 0)) | ((highest <= 0) & (lowest < 0))
