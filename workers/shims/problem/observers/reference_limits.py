"""Values that a reference's operators distinguish, and which a call on
some inputs did not have.

A dispatch mode that is active during a call of the reference:

* limits of comparisons and clamps that all values miss, above or below;
* operators that treat both signs differently (`relu`, `abs`), on values of one sign;
* operators that are nearly a polynomial near zero (`tanh`), on such values;
* values that an input itself is compared with and does not hold: a padding index, an
  integer beyond a limit, NaN; zero, if its logarithm is made finite;
* comparisons of two tensors of which one is larger everywhere: limits by channel, or by a spread;
* sorts, and choices by order (`median`), of values that are sorted already;
* a softmax of numbers so small that exp of none overflows (softmax_arguments.py);
* integers of one sign, if they are only computed with (integer_uses.py);
* operators that change nothing (idle_operators.py);
* maxima, or minima, of which none lies far on the other side of zero;
* functions of the elements of a bounded input, and choices of the largest results.

This does not see limits that Python compares with, and values that an integer reaches
only once it is computed with.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from workers.backends.support.dispatch_mode import Watching
from workers.protocol.roundoff import computable
from workers.shims.problem.inputs import input_domain
from workers.shims.problem.observers import (
    divisions,
    extremes,
    idle_operators,
    limited_operators,
    number_decisions,
    one_signed_products,
    operator_arguments,
    softmax_arguments,
)
from workers.shims.problem.observers.integer_uses import IntegerUses, identity
from workers.shims.problem.observers.operator_limits import LARGEST_LIMIT, OperatorLimits
from workers.shims.problem.observers.repeated_uses import RepeatedUses

LEAST_ORDERED = 8
"""Least number of values that are in no order by chance."""

USUALLY_IGNORED, NO_PADDING = -100, -1
"""Label that losses ignore where the problem names none, and index that bags leave out."""


class Limits(OperatorLimits, Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that records limits that a call's values miss."""

    def __init__(self, leaves: Iterable[Any] = (), *, traits: bool = False) -> None:
        """`leaves`: the inputs of the call, in the order of layout.values; `traits`: also look for
        operators that change nothing, which compares every result with every input.
        """
        super().__init__()
        self.needs_range = False
        """True if values beyond the inputs' bounds may be an error: one is made an
        index, or is a probability.
        """
        self.invents = False
        """True if NaN or infinity was made an integer, of which the conversion tells no value."""
        self.may_invent = False
        """True if integers were made of other numbers, or if the next operators may depend on
        values: calls on other inputs may invent.
        """
        self.decides = False
        """True if single numbers were compared or clamped (number_decisions.py)."""
        self.computes_elements = False
        """True if a function was applied to as many elements as a bounded input has."""
        self.chooses = False
        """True if some of many values were chosen."""
        self.already_sorted = 0
        """Sorts of sorted values, and choices of such by their order."""
        self.searched: set[int] = set()
        """Inputs that have to be sorted, because they are searched."""
        self.divides = False
        """True if a tensor was a divisor, or logarithms of one were taken."""
        self.named: set[tuple[int, float]] = set()
        """Index of an input, and a value that it is compared with and does not hold."""
        leaves, self._traits = list(leaves), traits
        self._uses = RepeatedUses()
        self.integers, self._shifts = IntegerUses(leaves), softmax_arguments.Shifts()
        self.idle = idle_operators.IdleOperators(leaves if traits else (), self._later)
        self._leaves = {
            identity(x): at for at, x in enumerate(leaves) if isinstance(x, torch.Tensor)
        }
        self._bounded = {
            x.shape
            for x in leaves
            if isinstance(x, torch.Tensor)
            and x.is_floating_point()
            and x.itemsize > 1
            and x.numel()
            and input_domain.is_bounded(x)
        }

    @classmethod
    def unknown(cls, leaves: Iterable[Any]) -> Limits:
        """Limits of a call that could not be looked at."""
        found = cls(leaves)
        found.may_invent = found.decides = True
        return found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name
        few = (), (self.integers.note,)
        looks, notes = self._looks if self._uses.is_looked_at(name, args) else few
        for look in looks:
            self.guarded(look, name, args, kwargs)
        found = func(*args, **kwargs)
        for note in notes:
            self.guarded(note, name, args, kwargs, found)
        return found

    def __exit__(self, *error: Any) -> None:
        """Leave the mode, and read the numbers that it has looked at."""
        super().__exit__(*error)
        self.read()

    @property
    def _looks(self) -> tuple[Sequence[Callable[..., None]], Sequence[Callable[..., None]]]:
        """Observers of an operator's arguments, and of its results; kept, they would be a cycle."""
        products = (self._look_at_exponentials, self._look_at_products)
        traits = (self.idle.note,) if self._traits else ()
        numbers = (self._note_integers, self._note_extremes)
        notes = (self.integers.note, *traits, self._note_shifts, *numbers)
        names = (self._look_beyond_limits, self._look_at_values)
        looks = (self.look_at_limits, *names, self._look_at_choices, *products)
        return looks, notes

    def _look_at_exponentials(self, name: str, args: Any, kwargs: Any) -> None:
        every = softmax_arguments.missed(name, args, kwargs), self._shifts.missed(name, args)
        for tops in every:
            if tops is not None:
                self._later.add(self.note_overflow, *tops)

    def _look_at_products(self, name: str, args: Any, _: Any) -> None:
        self.divides |= divisions.divides(name, args)
        for flag in one_signed_products.averaging(name, args):
            self._later.add(self.note_averaging, flag)

    def _note_shifts(self, name: str, args: Any, _: Any, found: Any) -> None:
        self._shifts.note(name, args, found)

    def _note_integers(self, name: str, args: Any, _: Any, found: Any) -> None:
        is_index = name in limited_operators.INTO_INTEGERS and operator_arguments.is_index_of(
            found, args
        )
        self.needs_range |= name in limited_operators.INTO_RANGE or is_index
        self.invents |= is_index and not bool(
            computable(operator_arguments.source(args)).isfinite().all()
        )
        self.may_invent |= is_index or number_decisions.is_reading(name, args, found)
        self.decides |= number_decisions.is_decision(name, args)

    def _note_extremes(self, name: str, args: Any, _: Any, found: Any) -> None:
        flag = extremes.are_shallow(name, args[0] if args else None, found)
        if flag is not None:
            self._later.add(self.note_shallow, flag)

    def _look_at_choices(self, name: str, args: Any, _: Any) -> None:
        self.computes_elements |= (
            name in limited_operators.FUNCTIONS and args[0].shape in self._bounded
        )
        self.chooses |= name in limited_operators.CHOICES
        if name in limited_operators.BY_ORDER:
            self.already_sorted += _is_in_order(args[0], _dimension(name, args))

    def _look_beyond_limits(self, name: str, args: Any, kwargs: Any) -> None:
        """Look for whole numbers beyond the limits that an operator compares an input with."""
        is_limited = name in limited_operators.COMPARES or name in limited_operators.CLAMPS
        if is_limited and self._is_whole_input(args[0]):
            for bound in operator_arguments.bounds(name, args, kwargs):
                self._name_beyond(name, args[0], operator_arguments.number(bound))

    def _look_at_values(self, name: str, args: Any, _: Any) -> None:
        """Look for the values that an operator treats differently."""
        if name in limited_operators.NAN or (
            name in limited_operators.EQUALITIES and args[1] is args[0]
        ):
            self._name(args[0], math.nan)
        elif name in limited_operators.EQUALITIES:
            number = operator_arguments.number(args[1])
            self._name(args[0], None if _is_the_losss_own(number) else number)
        elif name in limited_operators.CLAMPED_LOGARITHMS:
            self._name(args[0], 0.0)
        elif name in limited_operators.LABELS and args[-1] != USUALLY_IGNORED:
            self._name(args[1], float(args[-1]))
        elif name in limited_operators.PADDED:
            (padding,) = args[limited_operators.PADDED[name]] or (NO_PADDING,)
            self._name(args[1], float(padding) if padding != NO_PADDING else None)
        elif name in limited_operators.SEARCHES:
            place = limited_operators.SEARCHES[name]
            if self._is_input(args[place]):
                self.searched.add(self._leaves[identity(args[place])])

    def _name_beyond(self, name: str, values: Any, limit: float | None) -> None:
        """Note a whole number on the other side of the limit, if all of an input are on one."""
        if limit is None or abs(limit) > LARGEST_LIMIT:
            return
        lowest, highest = map(int, torch.aminmax(values))
        above, below = math.floor(limit) + 1, math.ceil(limit) - 1
        if name in limited_operators.ORDERS:
            holds = limited_operators.ORDERS[name]
            if holds(lowest, limit) == holds(highest, limit):
                near = (math.floor(limit), above, below)
                self._name(
                    values,
                    next(each for each in near if holds(each, limit) != holds(lowest, limit)),
                )
        elif highest <= limit or lowest >= limit:
            self._name(values, above if highest <= limit else below)

    def _name(self, values: Any, value: float | None) -> None:
        """Note a value with which an input is compared, if it can hold it and does not.  NaN in
        any input may reach a single number that is compared with it: a check of a whole step.
        """
        if value is not None and math.isnan(value) and self._is_derived_number(values):
            kinds = [(at, dtype) for (*_, dtype), at in self._leaves.items()]
            self.named |= {(at, value) for at, dtype in kinds if dtype.is_floating_point}
        if value is None or not self._is_input(values) or not _may_hold(values.dtype, value):
            return
        holds = values.isnan() if math.isnan(value) else values == value
        if not bool(holds.any()):
            self.named.add((self._leaves[identity(values)], value))

    def _is_whole_input(self, values: Any) -> bool:
        """Test for an input of whole numbers; of floats, one that is no mask."""
        if not self._is_input(values) or values.dtype == torch.bool or values.is_complex():
            return False
        if not values.is_floating_point():
            return True
        return input_domain.is_whole(values) and not input_domain.is_bounded(values)

    def _is_derived_number(self, values: Any) -> bool:
        return (
            isinstance(values, torch.Tensor)
            and values.is_floating_point()
            and values.numel() == 1
            and not self._is_input(values)
        )

    def _is_input(self, values: Any) -> bool:
        return (
            isinstance(values, torch.Tensor)
            and values.numel() > 0
            and identity(values) in self._leaves
        )


def _is_the_losss_own(label: float | None) -> bool:
    """Test for the label that `cross_entropy` ignores unless told otherwise, compared by itself:
    smoothing compares labels with it.
    """
    frame = sys._getframe() if label == USUALLY_IGNORED else None
    while frame is not None and frame.f_code is not torch.nn.functional.cross_entropy.__code__:
        frame = frame.f_back
    return frame is not None


def _dimension(name: str, args: Any) -> int | None:
    """Dimension along which an operator looks at the order of values; None: at all of them."""
    place = limited_operators.BY_ORDER[name]
    last = None if name.endswith("median") else -1
    found = args[place] if len(args) > place else last
    return found if isinstance(found, int) and not isinstance(found, bool) else last


def _is_in_order(values: torch.Tensor, dimension: int | None) -> bool:
    """Test whether all slices along a dimension ascend, or all descend, and are no constants."""
    values = values.flatten() if dimension is None else values
    if not values.dim() or values.shape[dimension or 0] < LEAST_ORDERED:
        return False
    steps = values.detach().diff(dim=dimension or 0)
    ascends, descends = (steps >= 0).all(), (steps <= 0).all()
    return bool((ascends | descends) & (steps != 0).any())


def _may_hold(dtype: torch.dtype, value: float) -> bool:
    if dtype == torch.bool or dtype.is_complex:
        return False
    if dtype.is_floating_point:
        return math.isnan(value) or abs(value) <= LARGEST_LIMIT
    info = torch.iinfo(dtype)
    return value == value // 1 and info.min <= value <= info.max
