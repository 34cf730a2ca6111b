"""Limits of single operators that their values miss, whatever these follow from: the inputs of a
call (reference_limits.py), or weights alone (weight_limits.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from workers.shims.problem.observers import extremes, limited_operators, operator_arguments
from workers.shims.problem.observers.later_numbers import LaterNumbers
from workers.shims.problem.observers.missed_counts import MissedCounts

LARGEST_LIMIT = 1e6
"""Largest limit to be reached; larger ones stand for infinity, such as a mask's −1e9."""


class OperatorLimits(MissedCounts):
    """Counts of the limits that the arguments of operators miss."""

    def __init__(self, later: LaterNumbers | None = None) -> None:
        """No operator has been looked at yet.  `later`: numbers that are read with those of other
        observers.
        """
        super().__init__()
        self.faults: set[str] = set()
        """Errors of observers, and the operators at which they were raised."""
        self._later = LaterNumbers() if later is None else later

    def read(self) -> None:
        """Read the numbers that have been looked at; from then on they are in the counts."""
        self._later.read()

    def guarded(self, look: Callable[..., None], name: str, *more: Any) -> None:
        """Let one observer look at an operator; note its error, so that the others go on."""
        try:
            look(name, *more)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001 (operators of any kind, with any arguments)
            self.faults.add(f"{type(error).__name__} at {name}")

    def look_at_limits(self, name: str, args: Any, kwargs: Any) -> None:
        """Look at the limits of an operator that has some."""
        if name in limited_operators.ROUNDINGS or kwargs.get("rounding_mode"):
            self._look(args[0], 0.0)
        if name in limited_operators.COMPARES or name in limited_operators.CLAMPS:
            self._look_at_comparison(name, args, kwargs)
        elif name in limited_operators.DIFFERENCES:
            limit = [*args, *kwargs.values()][-1]
            self._look(args[0] - args[1], float(limit) if isinstance(limit, float) else 1.0)
        elif name in limited_operators.SATURATIONS:
            self._look(args[0], limited_operators.SATURATIONS[name])
            self._look(args[0], -limited_operators.SATURATIONS[name])
        elif name in limited_operators.SAMPLERS:
            self._look(args[1], 1.0)
            self._look(args[1], -1.0)
        elif name in limited_operators.RANGES:
            bounds = args[limited_operators.RANGES[name]]
            for bound in bounds if any(bounds) else ():
                self._look(args[0], float(bound))
        elif name in limited_operators.BOTH_SIGNS:
            self._look(args[0], 0.0)
            self._look(args[1], 0.0)
        elif name == "aten::renorm":
            self._look(operator_arguments.norms(*args[:3]), float(args[3]))
        elif name in limited_operators.CURVED:
            self._look_near_zero(args[0])
        elif (
            name in limited_operators.SIGNS
            or name in extremes.NAMES
            or operator_arguments.is_odd_norm(name, args)
        ):
            self._look(args[0], 0.0)

    def _look_at_comparison(self, name: str, args: Any, kwargs: Any) -> None:
        values, numbers = args[0], operator_arguments.bounds(name, args, kwargs)
        for limit in map(operator_arguments.number, numbers):
            self._look(values, limit)
        if len(args) > 1 and isinstance(args[1], torch.Tensor):
            self._look(args[1], operator_arguments.number(values))
        for other in numbers:
            self._look_at_both(values, other)

    def _look(self, values: Any, limit: float | None) -> None:
        if (
            limit is None
            or not isinstance(values, torch.Tensor)
            or not values.is_floating_point()
            or not values.numel()
        ):
            return
        if abs(limit) <= LARGEST_LIMIT:
            note = functools.partial(self.note_range, limit)
            self._later.add(note, *torch.aminmax(values.detach().float()))

    def _look_near_zero(self, values: Any) -> None:
        """Note values so near zero that the operator is nearly a polynomial."""
        if isinstance(values, torch.Tensor) and values.is_floating_point() and values.numel():
            self._later.add(self.note_near_zero, values.detach().abs().amax())

    def _look_at_both(self, one: Any, other: Any) -> None:
        """Count a comparison of two tensors, neither a limit, of which one is larger everywhere."""
        if not all(
            isinstance(x, torch.Tensor) and x.is_floating_point() and x.numel()
            for x in (one, other)
        ):
            return
        if all(operator_arguments.number(each) is None for each in (one, other)):
            self._later.add(self.note_both, *torch.aminmax((one - other).detach().float()))
