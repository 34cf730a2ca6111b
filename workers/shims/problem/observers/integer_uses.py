"""Uses of integer inputs by a reference's operators.

* Integers that are only computed with, not compared, and not made an index or a float,
  may have any value; where the problem draws no negative ones, a division that rounds towards
  zero, or a product that holds for small ones only, is right.
* Integers that are only looked up by, computed with or made floats (an embedding's rows, positions
  of a rotation) may come in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from workers.protocol import layout
from workers.protocol.roundoff import are_integers

WIDENED, WIDENED_LONG = 8, 1024
"""Multiple of the largest integer that is put in; of 64 bits, where sums and products have room."""

LEAST_RANGE = 2
"""Largest value of a mask, which stays one, plus one."""

_COMPUTING = frozenset(
    f"aten::{name}{ending}"
    for name in (
        "add",
        "bitwise_and",
        "bitwise_not",
        "bitwise_or",
        "bitwise_xor",
        "cumsum",
        "div",
        "floor_divide",
        "fmod",
        "mul",
        "neg",
        "remainder",
        "rsub",
        "square",
        "sub",
        "sum",
        "__rshift__",
        "bitwise_right_shift",
    )
    for ending in ("", "_")
)
_VIEWS = frozenset(
    f"aten::{name}"
    for name in (
        "_reshape_alias",
        "_unsafe_view",
        "alias",
        "as_strided",
        "clone",
        "detach",
        "expand",
        "permute",
        "select",
        "slice",
        "squeeze",
        "t",
        "transpose",
        "unsqueeze",
        "view",
    )
)
_LOOKUPS = {"aten::embedding": 1, "aten::gather": 2, "aten::index": 1, "aten::index_select": 2}
"""Operators that read where integers say, and the place of those among their arguments."""

_CONVERSIONS = frozenset({"aten::_to_copy", "aten::copy_"})

_ALLOCATES = frozenset({"aten::arange", "aten::empty", "aten::empty_like"})


class IntegerUses:
    """Uses of integers in a call, by operator."""

    def __init__(self, leaves: Iterable[Any]) -> None:
        """`leaves`: the inputs of the call, in the order of layout.values."""
        self._leaves = {
            identity(x): at for at, x in enumerate(leaves) if are_integers(x) and x.numel()
        }
        self._computes = True
        """False once the call has done anything else with integers than compute."""
        self._computed: set[int] = set()
        self._read: set[int] = set()
        """Inputs that are looked up by, computed with or converted."""
        self._others: set[int] = set()
        """Inputs that are used for anything else."""

    def note(self, name: str, args: Any, kwargs: Any, found: Any) -> None:
        """Note an operator of the call."""
        if not self._leaves:
            return
        place = _LOOKUPS.get(name)
        for at, argument in enumerate(args):
            for leaf in self._leaves_of(argument):
                if at == place or name in _COMPUTING or name in _CONVERSIONS:
                    self._read.add(leaf)
                elif name not in _VIEWS:
                    self._others.add(leaf)
                if name in _COMPUTING:
                    self._computed.add(leaf)
        for leaf in self._leaves_of(list(kwargs.values())):
            self._others.add(leaf)
        if name in _VIEWS or name in _ALLOCATES:
            return
        takes_integers = any(map(are_integers, _tensors([*args, *kwargs.values()])))
        if takes_integers:
            self._computes &= name in _COMPUTING and all(map(are_integers, _tensors([found])))

    @property
    def positions(self) -> frozenset[int]:
        """Inputs that the reference looks something up by, computes with or makes floats, and uses
        for nothing else.
        """
        return frozenset(self._read - self._others)

    def beyond(self, leaves: Mapping[int, Any]) -> tuple[tuple[int, float], ...]:
        """Inputs that are computed with, if none of their values is negative, and values beyond
        their range: pairs of index and value; none if the call did anything else with integers.
        """
        return tuple(
            (at, value)
            for at, x in leaves.items()
            if self._computes and at in self._computed
            for value in _beyond(x)
        )

    def _leaves_of(self, value: Any) -> set[int]:
        return {self._leaves[identity(x)] for x in _tensors([value]) if identity(x) in self._leaves}


def _beyond(x: torch.Tensor) -> list[float]:
    """Values beyond the range of these; none if they fill what their type has above zero (bits)."""
    least, most = map(int, torch.aminmax(x))
    limits = torch.iinfo(x.dtype)
    if least < 0 or most < LEAST_RANGE or most > limits.max // 2:
        return []
    factor = WIDENED_LONG if x.dtype == torch.int64 else WIDENED
    values = (-most, 1 - most, factor * most + 1)
    return [float(value) for value in values if limits.min <= value <= limits.max]


def _tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    return [x for x in layout.values(list(values)) if isinstance(x, torch.Tensor)]


def identity(x: torch.Tensor) -> tuple[int, int, torch.dtype]:
    """The same for a tensor and for its views with all of its elements."""
    return x.data_ptr(), x.numel(), x.dtype
