"""Operators of a reference's call that change nothing: they give back an input, or their own
argument.

Examples are the normalisation of rows of unit length, `(a + a.T) / 2` of a symmetric matrix, a
division by a sum of one, `tril` of a triangular matrix.  A candidate that leaves them out is right
while the inputs are as they are drawn.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch

from workers.protocol import layout
from workers.protocol.roundoff import unit
from workers.shims.problem.observers.later_numbers import LaterNumbers

ROUNDED, ROUNDINGS = 1e-5, 4
"""Largest difference of tensors that count as equal, as a share of the largest number, and in
roundings of their type.
"""

SAMPLED = 16
"""Elements along the last dimension that are compared before all are."""

AT_ONCE, AT_ONCE_ON_GPU = 1 << 14, 1 << 22
"""Elements of a tensor up to which all are compared at once: on a GPU reading the first result
takes longer than comparing the others, and larger ones take memory that is not reserved.
"""


class IdleOperators:
    """Counts of operators of one call."""

    def __init__(self, leaves: Iterable[Any], later: LaterNumbers) -> None:
        """`leaves`: the inputs of the call, in the order of layout.values; `later`: once it has
        been read, the counts are complete.
        """
        self.restoring: Counter[int] = Counter()
        """Operators that give back an input, by its index."""
        self.idle = 0
        """Operators that give back their first argument."""
        self._leaves = [(at, x, _largest(x)) for at, x in enumerate(leaves) if _is_seen(x)]
        self._later = later

    def note(self, _name: str, args: Any, _kwargs: Any, found: Any) -> None:
        """Look at the results of one operator."""
        first = args[0] if args else None
        for made in filter(_is_seen, layout.values(found)):
            if made is first or any(_share_memory(made, x) for x in layout.values(args)):
                continue
            if isinstance(first, torch.Tensor):
                self._compare(self._note_idle, made, first)
            for at, leaf, largest in self._leaves:
                self._compare(functools.partial(self._note_restoring, at), made, leaf, largest)

    def _note_idle(self, is_equal: float) -> None:
        self.idle += bool(is_equal)

    def _note_restoring(self, at: int, is_equal: float) -> None:
        self.restoring[at] += bool(is_equal)

    def _compare(
        self,
        note: Callable[[float], None],
        one: torch.Tensor,
        other: torch.Tensor,
        largest: torch.Tensor | None = None,
    ) -> None:
        """Note later whether two tensors are equal but for rounding.  `largest`: largest number of
        the other, if it is known.  Most pairs differ in a few elements already.
        """
        if one.shape != other.shape or one.dtype != other.dtype:
            return
        one, other = one.detach(), other.detach()
        allowed = _share(one.dtype) * (_largest(other) if largest is None else largest)
        most = AT_ONCE if one.device.type == "cpu" else AT_ONCE_ON_GPU
        if one.numel() > most and bool((_few(one) - _few(other)).abs().amax() > allowed):
            return
        self._later.add(note, ((one - other).abs().amax() <= allowed) & (allowed > 0))

    def fewer_than(self, before: IdleOperators, at: int, *, any_idle: bool) -> bool:
        """Test whether fewer operators gave this input back than in the call `before`; `any_idle`:
        or their own argument.
        """
        fewer = self.restoring[at] < before.restoring[at]
        return fewer or (any_idle and self.idle < before.idle)


def _is_seen(x: Any) -> bool:
    return (
        isinstance(x, torch.Tensor) and x.is_floating_point() and x.itemsize > 1 and x.numel() > 1
    )


def _share_memory(one: torch.Tensor, other: Any) -> bool:
    return (
        isinstance(other, torch.Tensor)
        and other.layout == one.layout == torch.strided
        and one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    )


def _share(dtype: torch.dtype) -> float:
    return max(ROUNDED, ROUNDINGS * unit(dtype))


def _largest(x: torch.Tensor) -> torch.Tensor:
    """Largest absolute value."""
    low, high = torch.aminmax(x.detach())
    return torch.maximum(-low, high)


def _few(x: torch.Tensor) -> torch.Tensor:
    """A view of the first elements of a row in the middle."""
    for size in x.shape[:-1]:
        x = x[size // 2]
    return x[:SAMPLED]
