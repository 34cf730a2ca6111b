"""Elementwise operators of a reference: those that only apply a function to each element of one
tensor, and inputs or weights; and the elementwise tail, those of them at the end of a call, after
every product, reduction and other operator that combines elements.

A candidate whose kernels only apply a function to each element of a tensor that the library
computed (workers/backends/recording/elementwise_maps.py) can take over these operators and no
other ones: those of the tail, unless the library goes on with its kernels' results.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from workers.backends.recording import library_work
from workers.backends.support.dispatch_mode import written

MOST_OPERATORS = 512
"""Longest tail that is followed."""

POINTWISE = frozenset(
    f"aten::{name}"
    for name in ("hardswish", "hardswish_", "log_sigmoid_forward", "_prelu_kernel", "rsub")
)
"""Elementwise operators that torch does not tag as such."""


class _Origin(NamedTuple):
    """The computation of a tensor: a function of a root, by these operators."""

    root: int | None
    """Number of the operator whose result is the root; None for a function of inputs and weights
    alone.
    """
    operators: frozenset[int]


_GIVEN = _Origin(None, frozenset())


class ElementwiseTail:
    """Record of the operators of one call."""

    def __init__(self) -> None:
        """Without an operator."""
        self._origins: dict[int, _Origin] = {}
        """By the address of a tensor's memory."""
        self._works: list[int] = []
        """Modelled bytes of each operator."""
        self._is_known = True
        self.all_bytes = 0
        """Modelled bytes of all elementwise operators."""

    def note(self, func: Any, args: Any, kwargs: Any, result: Any, work: int) -> None:
        """Note one operator, with its work in modelled bytes."""
        if func.is_view or not self._is_known:
            return
        if func._schema.name in library_work.FREE:
            for tensor in library_work.tensors([result]):  # perhaps in memory of another one
                self._origins.pop(library_work.identity(tensor), None)
            return
        number = len(self._works)
        self._works.append(work)
        taken = library_work.tensors([*args, *kwargs.values()])
        made = [*library_work.tensors([result]), *written(func, args, kwargs)]
        origin = self._origin(func, number, taken, max((x.numel() for x in made), default=0))
        if number in origin.operators:
            self.all_bytes += work
        for tensor in made:
            self._origins[library_work.identity(tensor)] = origin

    def bytes_of(self, outputs: Iterable[object]) -> int | None:
        """Modelled bytes of the operators of the outputs' tails; None if one is too long."""
        operators: set[int] = set()
        for tensor in library_work.tensors(outputs):
            operators |= self._of(tensor).operators
        return sum(self._works[number] for number in operators) if self._is_known else None

    def _of(self, tensor: torch.Tensor) -> _Origin:
        return self._origins.get(library_work.identity(tensor), _GIVEN)

    def _origin(self, func: Any, number: int, taken: list[torch.Tensor], size: int) -> _Origin:
        """Origin of the result of `size` elements."""
        name = func._schema.name
        moves = name in library_work.MOVES
        if not (moves or name in POINTWISE or torch.Tag.pointwise in func.tags):
            return _Origin(number, frozenset())
        origins = [(self._of(each), each.numel()) for each in taken]
        operators = frozenset({number}).union(*(each.operators for each, _ in origins))
        self._is_known &= len(operators) <= MOST_OPERATORS
        roots = {each.root for each, _ in origins} - {None}
        if moves:
            return _Origin(roots.pop() if len(roots) == 1 else number if roots else None, operators)
        is_spread = any(each.root is not None and count < size for each, count in origins)
        if len(roots) > 1 or is_spread:
            return _Origin(number, frozenset())
        return _Origin(next(iter(roots), None), operators)
