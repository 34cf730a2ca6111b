"""A problem's inputs, changed as the plan of its reference says (reaching_inputs.py).

All changes draw from torch's seeded generator.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import torch

from workers.protocol import layout
from workers.protocol.input_variants import Variant
from workers.shims.problem.inputs import (
    aligned_inputs,
    input_changes,
    input_domain,
    iterated_inputs,
    local_changes,
    redrawn_inputs,
    telling_inputs,
)
from workers.shims.problem.inputs.input_changes import Scaling

ITERATED = (Variant.HELD, Variant.DIAGONAL, Variant.STRETCHED, Variant.LASTING)
"""Kinds of inputs on which every step of an iteration tells."""


ZEROED = 0.5
"""Share of the emptied inputs of which one is zero as a whole, if some may be, and others rows."""


@dataclass(frozen=True)
class Plan:
    """Changes to be made to a problem's inputs.  Inputs are named by their index in
    the order of layout.values.
    """

    scaling: Scaling | None = None
    """None if all limits are reached or none can be."""
    fixed: frozenset[int] = frozenset()
    """Inputs that are drawn anew, because they are the same in every draw."""
    signed: frozenset[int] = frozenset()
    """Inputs of one sign, of which half of the elements are negated."""
    deepened: frozenset[int] = frozenset()
    """Inputs of both signs, of which some slices are moved away from zero."""
    balanced: frozenset[int] = frozenset()
    """Inputs of one sign; their elements receive random ones."""
    emptied: frozenset[int] = frozenset()
    """Inputs of which a few rows become zeros."""
    zeroed: frozenset[int] = frozenset()
    """Inputs of which one becomes zeros as a whole, at times."""
    loosened: frozenset[int] = frozenset()
    """Inputs that lose a trait, which the reference restores."""
    named: tuple[tuple[int, float], ...] = ()
    """Inputs, and values that they receive."""
    unsorted: frozenset[int] = frozenset()
    """Sorted inputs that are shuffled."""
    aligned: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """Inputs, and names of the weights that give some of their rows an order."""
    iterated: tuple[Variant, ...] = ()
    """Kinds of inputs on which every step of an iteration tells; or STRETCHED alone, if the
    reference computes functions of their elements.
    """
    stretch: float = iterated_inputs.FACTOR
    """Factor on stretched inputs."""
    multiplies: bool = False
    """True if the reference takes products of consecutive values, which then all become lasting."""
    telling: tuple[str, ...] = ()
    """Names of changes with which the last steps of an iteration tell (telling_inputs.py)."""
    is_partial: bool = field(default=False, compare=False)
    """True if the reference runs with all changes of PARTLY."""
    faults: tuple[str, ...] = field(default=(), compare=False)
    """Errors of observers and parts of the plan, which may lack changes."""

    @property
    def kinds(self) -> tuple[Variant, ...]:
        """Kinds of variants that exist for the problem, but for PARTLY."""
        wanted = (
            (Variant.REACHING, self.scaling is not None),
            (Variant.REDRAWN, bool(self.fixed)),
            (Variant.SIGNED, bool(self.signed or self.deepened)),
            (Variant.NAMED, bool(self.named)),
            (Variant.UNSORTED, bool(self.unsorted)),
            (Variant.ALIGNED, bool(self.aligned)),
            (Variant.TELLING, bool(self.telling)),
            (Variant.BALANCED, bool(self.balanced)),
            (Variant.EMPTIED, bool(self.emptied or self.zeroed)),
            (Variant.LOOSENED, bool(self.loosened)),
        )
        return (*(kind for kind, there in wanted if there), *self.iterated)

    @property
    def has_parts(self) -> bool:
        """True if PARTLY would change anything; the other kinds are made as a whole."""
        several = self.fixed or self.signed or self.named or self.unsorted or self.loosened
        return bool(several or self.scaling or Variant.STRETCHED in self.iterated)

    @property
    def all_kinds(self) -> tuple[Variant, ...]:
        """Kinds of variants that exist for the problem."""
        return (*self.kinds, *((Variant.PARTLY,) if self.is_partial else ()))


def applied(kind: Variant, how: Plan, inputs: list[Any], model: Any = None) -> list[Any]:
    """The inputs, changed by the plan `how`; draws from torch's seeded generator.  `model`: that
    to which they are given.
    """
    if kind == Variant.PARTLY:
        return _partly(how, inputs)
    if kind == Variant.ALIGNED:
        return _aligned(how, inputs, model)
    if kind == Variant.TELLING:
        return telling_inputs.drawn(how.telling, inputs)
    if kind == Variant.REDRAWN:
        return redrawn_inputs.redrawn(inputs, how.fixed)
    if kind == Variant.SIGNED:
        inputs = input_changes.changed(inputs, how.signed, input_changes.negated)
        return input_changes.changed(inputs, how.deepened, input_changes.deepened)
    if kind == Variant.BALANCED:
        return input_changes.changed(inputs, how.balanced, input_changes.balanced)
    if kind == Variant.EMPTIED:
        return _emptied(how, inputs)
    if kind == Variant.LOOSENED:
        return input_changes.changed(inputs, how.loosened, input_changes.loosened)
    if kind == Variant.NAMED:
        return input_changes.with_named(inputs, how.named)
    if kind == Variant.UNSORTED:
        return input_changes.changed(inputs, how.unsorted, input_changes.shuffled)
    if kind in ITERATED:
        some = [at for at, x in enumerate(layout.values(inputs)) if input_changes.is_float(x)]
        return input_changes.changed(inputs, some, _iterated(kind, how))
    assert how.scaling is not None
    return input_changes.scaled(inputs, how.scaling)


def _iterated(kind: Variant, how: Plan) -> local_changes.Change:
    """The change of a tensor to this kind of inputs, one of `ITERATED`."""
    if kind == Variant.STRETCHED:
        return functools.partial(iterated_inputs.stretched, factor=how.stretch)
    if kind == Variant.LASTING:
        return functools.partial(iterated_inputs.lasting, are_factors=how.multiplies)
    return iterated_inputs.held if kind == Variant.HELD else iterated_inputs.diagonal


def _emptied(how: Plan, inputs: list[Any]) -> list[Any]:
    some = sorted(how.zeroed)
    if some and (not how.emptied or torch.rand(()) < ZEROED):
        chosen = some[int(torch.randint(len(some), ()))]
        return input_changes.changed(inputs, {chosen}, torch.zeros_like)
    return input_changes.changed(inputs, how.emptied, input_changes.emptied)


def _aligned(how: Plan, inputs: list[Any], model: Any) -> list[Any]:
    weights = aligned_inputs.weights_of(model)
    for at, names in how.aligned:
        change = functools.partial(
            aligned_inputs.aligned, weights=[weights[name] for name in names]
        )
        inputs = input_changes.changed(inputs, {at}, change)
    return inputs


def _partly(how: Plan, inputs: list[Any]) -> list[Any]:
    """All changes of a plan, each in a few rows or in a quarter of a tensor."""
    inputs = redrawn_inputs.redrawn_in_part(inputs, how.fixed)
    some = [at for at, x in enumerate(layout.values(inputs)) if input_changes.is_float(x)]
    inputs = input_changes.changed(inputs, how.signed, _with_few_negated)
    inputs = input_changes.changed(inputs, how.unsorted, _with_few_shuffled)
    inputs = input_changes.changed(inputs, how.loosened, _with_few_loosened)
    if Variant.STRETCHED in how.iterated:
        stretching = functools.partial(iterated_inputs.stretched_in_part, factor=how.stretch)
        inputs = input_changes.changed(inputs, some, stretching)
    if how.scaling is not None:
        some = [at for at in some if at not in how.scaling.kept]
        for change, whole in input_changes.scalings_of_rows(how.scaling):
            in_few = functools.partial(_in_few_rows, change=change, whole=whole)
            inputs = input_changes.changed(inputs, some, in_few)
    return input_changes.with_named(inputs, how.named, in_part=True)


def _with_few_negated(x: torch.Tensor) -> torch.Tensor:
    changed = local_changes.in_secluded_places(x, input_changes.with_signs)
    return changed if input_domain.keeps_structure(x, changed, signs=False, bounds=False) else x


def _in_few_rows(x: torch.Tensor, change: local_changes.Change, *, whole: int) -> torch.Tensor:
    """A tensor with a part changed (local_changes.in_few_rows), if it keeps its structure."""
    changed = local_changes.in_few_rows(x, change, whole=whole)
    return changed if input_domain.keeps_structure(x, changed, signs=False, bounds=False) else x


def _with_few_loosened(x: torch.Tensor) -> torch.Tensor:
    return local_changes.in_few_rows(x, input_changes.loosened)


def _with_few_shuffled(x: torch.Tensor) -> torch.Tensor:
    return (
        local_changes.in_few_rows(x, input_changes.shuffled)
        if x.dim() > 1
        else input_changes.shuffled(x)
    )
