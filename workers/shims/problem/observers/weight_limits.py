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


def missed_before(name: str, args: Any, kwargs: Any) -> float:
    """Number of limits that the arguments of an operator miss.  Those that all exceed a limit miss
    half of it: a single number is always on one side.
    """
    limits = OperatorLimits()
    limits.guarded(limits.look_at_limits, name, args, kwargs)
    limits.read()
    return limits.one_sided + len(limits.above) + len(limits.below) / 2 + limits.unanimous


def missed_after(name: str, args: Any, kwargs: Any, found: Any) -> float:
    """The share of an operator's results that vanish, and one if it changes nothing, or makes equal
    numbers of unequal ones.
    """
    first: Any = args[0] if args else None
    if name in _COPIES or any(part in name for part in _FILLS) or not _is_seen(first):
        return 0.0
    later = LaterNumbers()
    idle = IdleOperators((), later)
    idle.note(name, args, kwargs, found)
    later.read()
    if not _is_seen(found):
        return float(idle.idle)
    return float(idle.idle) + _vanished(name, first, found) + _is_level(found, first)


def _is_seen(x: Any) -> bool:
    is_float = isinstance(x, torch.Tensor) and x.is_floating_point()
    return is_float and x.itemsize > 1 and x.numel() > 0


def _vanished(name: str, values: torch.Tensor, found: torch.Tensor) -> float:
    if name not in _VANISHING or values.shape != found.shape:
        return 0.0
    share = float(((found.abs() < HIDDEN) & (values.abs() > FAR)).float().mean())
    return share if share >= LEAST_SHARE else 0.0


def _is_level(found: torch.Tensor, values: torch.Tensor) -> bool:
    low, high = torch.aminmax(found.detach().float())
    if found.numel() < 2 or bool(high - low > LEVEL * torch.maximum(high, -low)):
        return False
    return bool(values.amax() > values.amin())
