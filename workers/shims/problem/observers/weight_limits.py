"""Values that operators distinguish and that a reference's weights do not have.

A clamp of weights that lie within its limits, a branch behind a sigmoid of numbers far below zero,
the triangle of a triangular matrix: a candidate may leave such work out until the model is trained.
"""

from __future__ import annotations

from typing import Any

import torch

from workers.shims.problem.observers import limited_operators
from workers.shims.problem.observers.idle_operators import IdleOperators
from workers.shims.problem.observers.later_numbers import LaterNumbers
from workers.shims.problem.observers.operator_limits import OperatorLimits

FAR, HIDDEN, LEAST_SHARE = 4.0, 1e-4, 1 / 64
"""Arguments beyond which a function may vanish, the size below which its result hides a branch
that it scales, and the least share of such results that counts: one branch of 64.
"""

LEVEL = 1e-5
"""Largest difference of numbers that count as equal, as a share of the largest."""

_VANISHING = limited_operators.CURVED | frozenset(
    {"aten::_softmax", "aten::exp", "aten::exp2", "aten::softplus"}
)
_COPIES = frozenset({"aten::_to_copy", "aten::clone", "aten::contiguous", "aten::copy_"})
_FILLS = ("_like", "aten::new_")


class WeightLimits:
    """Limits that one operator on weights misses."""

    def __init__(self, later: LaterNumbers) -> None:
        """`later`: once it has been read, the count is complete."""
        self._later = later
        self._limits = OperatorLimits(later)
        self._idle = IdleOperators((), later)
        self._share = 0.0

    @property
    def count(self) -> float:
        """Number of limits.  Of those that all arguments exceed half a one: a single number is
        always on one side.  Also the share of the results that vanish, and one if the operator
        changes nothing, or makes equal numbers of unequal ones.
        """
        limits = self._limits
        missed = limits.one_sided + len(limits.above) + len(limits.below) / 2 + limits.unanimous
        return missed + self._idle.idle + self._share

    def look_before(self, name: str, args: Any, kwargs: Any) -> None:
        """Look at the arguments of the operator."""
        self._limits.guarded(self._limits.look_at_limits, name, args, kwargs)

    def look_after(self, name: str, args: Any, kwargs: Any, found: Any) -> None:
        """Look at its results."""
        first: Any = args[0] if args else None
        if name in _COPIES or any(part in name for part in _FILLS) or not _is_seen(first):
            return
        self._idle.note(name, args, kwargs, found)
        if not _is_seen(found):
            return
        if name in _VANISHING and first.shape == found.shape:
            vanished = (found.abs() < HIDDEN) & (first.abs() > FAR)
            self._later.add(self._note_vanished, vanished.float().mean())
        if found.numel() > 1:
            self._later.add(self._note_level, _is_level(found, first))

    def _note_vanished(self, share: float) -> None:
        self._share += share if share >= LEAST_SHARE else 0.0

    def _note_level(self, is_level: float) -> None:
        self._share += is_level


def _is_seen(x: Any) -> bool:
    is_float = isinstance(x, torch.Tensor) and x.is_floating_point()
    return is_float and x.itemsize > 1 and x.numel() > 0


def _is_level(found: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    low, high = torch.aminmax(found.detach().float())
    are_equal = high - low <= LEVEL * torch.maximum(high, -low)
    return are_equal & (values.amax() > values.amin())
