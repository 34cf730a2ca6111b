"""Inputs that reach branches of the reference which the problem's own
inputs do not reach.

Kinds, in addition to those that only change a distribution (workers/protocol/input_variants.py):

* Reaching: if a limit of an operator is missed by all values (reference_limits.py),
  half of the rows of the inputs, or scattered elements, are scaled until some reach it; the same
  for zero, where a sum has one sign (a margin), and for a softmax, until exp overflows.  Inputs
  between −1 and 1 leave that range if nothing else reaches a limit, and if they become no index.
* Signed: if an operator that treats both signs differently has values of one sign, half of the
  elements of inputs of one sign are negated, in some slices all (of those, a maximum is negative).
* Named: a value that the reference compares an input with, and which never occurs, is
  put into some of its elements; into integers that are only computed with, some beyond their range.
* Unsorted: if the reference sorts sorted inputs again, they are shuffled.
* Redrawn: inputs that are the same in two draws are drawn anew (redrawn_inputs.py).
* Held, diagonal, stretched: if the reference iterates, inputs on which every step tells
  (iterated_inputs.py).
* Partly: all that apply of redrawn, named, reaching, signed, unsorted and stretched in one call,
  each in a few rows or in a quarter of an input.

Planned in the reference's process, once for each problem.  This does not guard
against limits that Python compares with (`x.max().item() > 1e4`), integers beyond a
limit that is applied to a result, and
bounded inputs that must not grow (a probability).
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from workers.protocol import layout
from workers.protocol.input_variants import Variant
from workers.shims.problem import (
    input_changes,
    input_domain,
    iterated_inputs,
    local_changes,
    redrawn_inputs,
    softmax_arguments,
)
from workers.shims.problem.input_changes import Scaling
from workers.shims.problem.reference_limits import Limits

ATTEMPTS = 3
"""Factors that are tried, each four times as large as the one before."""

LARGEST_FACTOR = 1e6

BEYOND = 8.0
"""Multiple of a limit that scaled values reach."""

LARGEST_BYTES = 64 << 20
"""Largest size of the inputs of an examined problem, of which several copies are made."""

ONE_SIDED_FACTORS = (8.0, 64.0)
"""Factors that are tried for operators that treat both signs differently, on values of one sign."""

UNANIMOUS_FACTORS = (64.0, 4096.0)
"""Factors that are tried for comparisons of two tensors of which one is larger everywhere."""

Call = Callable[[Any, list[Any]], Any]

ITERATED: dict[Variant, Callable[[torch.Tensor], torch.Tensor]] = {
    Variant.HELD: iterated_inputs.held,
    Variant.DIAGONAL: iterated_inputs.diagonal,
    Variant.STRETCHED: iterated_inputs.stretched,
}


@dataclass(frozen=True)
class Plan:
    """Changes to be made to a problem's inputs.  Inputs are named by their index in
    the order of layout.values.
    """

    scaling: Scaling | None = None
    """None if all limits are reached or none can be."""
    fixed: frozenset[int] = field(default_factory=frozenset)
    """Inputs that are drawn anew, because they are the same in every draw."""
    signed: frozenset[int] = field(default_factory=frozenset)
    """Inputs of one sign, of which half of the elements are negated."""
    named: tuple[tuple[int, float], ...] = ()
    """Inputs, and values that they receive."""
    unsorted: frozenset[int] = field(default_factory=frozenset)
    """Sorted inputs that are shuffled."""
    iterated: tuple[Variant, ...] = ()
    """Kinds of inputs on which every step of an iteration tells."""
    stretch: float = iterated_inputs.FACTOR
    """Factor on stretched inputs."""
    is_partial: bool = field(default=False, compare=False)
    """True if the reference runs with all of these changes in a part of the inputs."""

    @property
    def kinds(self) -> tuple[Variant, ...]:
        """Kinds of variants that exist for the problem, but for PARTLY."""
        wanted = (
            (Variant.REACHING, self.scaling is not None),
            (Variant.REDRAWN, bool(self.fixed)),
            (Variant.SIGNED, bool(self.signed)),
            (Variant.NAMED, bool(self.named)),
            (Variant.UNSORTED, bool(self.unsorted)),
        )
        return (*(kind for kind, there in wanted if there), *self.iterated)

    @property
    def all_kinds(self) -> tuple[Variant, ...]:
        """Kinds of variants that exist for the problem."""
        return (*self.kinds, *((Variant.PARTLY,) if self.is_partial else ()))


def plan(call: Call, model: Any, draw: Callable[[], list[Any]], device: torch.device) -> Plan:
    """Plan of changes for a problem.  `call(model, inputs)`: makes a call; `draw`: returns new
    inputs each time.  The model is not changed.
    """
    inputs = draw()
    if redrawn_inputs.bytes_of(inputs) > LARGEST_BYTES:
        return Plan()
    given = copy.deepcopy(inputs)
    with iterated_inputs.Iterations(model, layout.values(given)) as iterations:
        missed, _ = _missed(call, model, given)
    others = draw()
    same = redrawn_inputs.fixed(inputs, others, missed.integers.positions)
    fixed = redrawn_inputs.standing(call, model, inputs, same, device)
    found = Plan(
        scaling=_scaling(call, model, inputs, missed),
        fixed=fixed,
        signed=_signed(call, model, inputs, missed),
        named=_named(call, model, inputs, others, missed, device),
        unsorted=_unsorted(call, model, inputs, missed),
        iterated=_iterated(call, model, inputs, missed) if iterations.found else (),
    )
    if Variant.STRETCHED in found.iterated:
        found = replace(found, stretch=_stretch(call, model, inputs))
    is_partial = bool(found.kinds) and _reaches(call, model, _partly(found, inputs), lambda _: True)
    return replace(found, is_partial=is_partial)


def applied(kind: Variant, how: Plan, inputs: list[Any]) -> list[Any]:
    """The inputs, changed by the plan `how`; draws from torch's seeded generator."""
    if kind == Variant.PARTLY:
        return _partly(how, inputs)
    if kind == Variant.REDRAWN:
        return redrawn_inputs.redrawn(inputs, how.fixed)
    if kind == Variant.SIGNED:
        return input_changes.changed(inputs, how.signed, input_changes.negated)
    if kind == Variant.NAMED:
        return input_changes.with_named(inputs, how.named)
    if kind == Variant.UNSORTED:
        return input_changes.changed(inputs, how.unsorted, input_changes.shuffled)
    if kind in ITERATED:
        some = [at for at, x in enumerate(layout.values(inputs)) if input_changes.is_float(x)]
        change = _stretching(how) if kind == Variant.STRETCHED else ITERATED[kind]
        return input_changes.changed(inputs, some, change)
    assert how.scaling is not None
    return input_changes.scaled(inputs, how.scaling)


def _partly(how: Plan, inputs: list[Any]) -> list[Any]:
    """All changes of a plan, each in a few rows or in a quarter of a tensor."""
    inputs = redrawn_inputs.redrawn_in_part(inputs, how.fixed)
    some = [at for at, x in enumerate(layout.values(inputs)) if input_changes.is_float(x)]
    inputs = input_changes.changed(inputs, how.signed, _with_few_negated)
    inputs = input_changes.changed(inputs, how.unsorted, _with_few_shuffled)
    if Variant.STRETCHED in how.iterated:
        stretching = _stretching(how)
        inputs = input_changes.changed(inputs, some, lambda x: _in_few_rows(x, stretching, whole=2))
    for change, whole in () if how.scaling is None else input_changes.scalings_of_rows(how.scaling):
        in_few = functools.partial(_in_few_rows, change=change, whole=whole)
        inputs = input_changes.changed(inputs, some, in_few)
    return input_changes.with_named(inputs, how.named, in_part=True)


def _stretching(how: Plan) -> local_changes.Change:
    return functools.partial(iterated_inputs.stretched, factor=how.stretch)


def _with_few_negated(x: torch.Tensor) -> torch.Tensor:
    changed = local_changes.in_secluded_places(x, input_changes.with_signs)
    return changed if input_domain.keeps_structure(x, changed, signs=False, bounds=False) else x


def _in_few_rows(x: torch.Tensor, change: local_changes.Change, *, whole: int) -> torch.Tensor:
    """A tensor with a part changed (local_changes.in_few_rows), if it keeps its structure."""
    changed = local_changes.in_few_rows(x, change, whole=whole)
    return changed if input_domain.keeps_structure(x, changed, signs=False, bounds=False) else x


def _with_few_shuffled(x: torch.Tensor) -> torch.Tensor:
    return (
        local_changes.in_few_rows(x, input_changes.shuffled)
        if x.dim() > 1
        else input_changes.shuffled(x)
    )


def _missed(call: Call, model: Any, inputs: list[Any]) -> tuple[Limits, Any]:
    """Values that a call misses, and its answer.  The call may change the inputs."""
    limits = Limits(layout.values(inputs))
    with limits:
        answer = call(model, inputs)
    return limits, answer


def _scaling(call: Call, model: Any, inputs: list[Any], missed: Limits) -> Scaling | None:
    """The first tried change with which the operators reach one more limit; None if
    there is none.
    """
    leaves = list(layout.values(inputs))
    has_bounds = any(input_changes.is_float(x) and input_domain.is_bounded(x) for x in leaves)
    for how in _scalings(
        missed, (False, True) if has_bounds and not missed.needs_range else (False,)
    ):
        scaled = input_changes.scaled(inputs, how)
        is_changed = any(a is not b for a, b in zip(layout.values(scaled), leaves, strict=True))
        if is_changed and _reaches(call, model, scaled, lambda now: _reach_more(now, missed)):
            return how
    return None


def _reach_more(now: Limits, before: Limits) -> bool:
    """Test whether a call missed fewer limits of one kind than the call before."""
    if now.one_sided < before.one_sided:
        return True
    return (
        len(now.above) < len(before.above)
        or len(now.below) < len(before.below)
        or now.unanimous < before.unanimous
        or len(now.overflows) < len(before.overflows)
    )


def _scalings(missed: Limits, bounds: Collection[bool]) -> Iterator[Scaling]:
    """Changes to try.  `bounds`: values of Scaling.leaves_bounds."""
    for leaves_bounds in bounds:
        yield from (Scaling(factor, leaves_bounds=leaves_bounds) for factor in _factors(missed))
        if missed.one_sided:
            yield from (
                Scaling(factor, leaves_bounds=leaves_bounds) for factor in ONE_SIDED_FACTORS
            )
        if missed.unanimous:
            for is_scattered in (False, True):
                yield from (
                    Scaling(factor, is_scattered, leaves_bounds) for factor in UNANIMOUS_FACTORS
                )
        if missed.overflows:
            yield from (
                Scaling(factor, leaves_bounds=leaves_bounds, scales_peaks=True)
                for factor in softmax_arguments.factors(min(missed.overflows))
            )


def _factors(missed: Limits) -> Iterator[float]:
    """Factors to try: growing ones for limits above all values; for limits below, of which a result
    may grow as its inputs shrink, in either direction.
    """
    if missed.above:
        first = BEYOND * max(missed.above)
        yield from (
            each
            for each in (first * 4**attempt for attempt in range(ATTEMPTS))
            if each <= LARGEST_FACTOR
        )
    if missed.below:
        first = BEYOND * max(missed.below)
        yield from (1 / first, first, 1 / (4 * first))


def _iterated(call: Call, model: Any, inputs: list[Any], missed: Limits) -> tuple[Variant, ...]:
    """Kinds of inputs for an iteration that change anything, and to which the
    reference has a finite answer.
    """
    several = (
        sum(input_changes.is_float(x) and x.dim() > 1 for x in layout.values(inputs))
        > iterated_inputs.MOST_HELD
    )
    kinds = [kind for kind in ITERATED if not (kind == Variant.HELD and several)]
    return tuple(
        kind
        for kind in (() if missed.needs_range else kinds)
        if any(
            input_changes.is_float(x) and ITERATED[kind](x) is not x for x in layout.values(inputs)
        )
        and _reaches(call, model, applied(kind, Plan(), inputs), lambda _: True)
    )


def _stretch(call: Call, model: Any, inputs: list[Any]) -> float:
    """The larger factor on stretched inputs, if the reference allows it; else the smaller one."""
    far = applied(Variant.STRETCHED, Plan(stretch=iterated_inputs.FAR_FACTOR), inputs)
    try:
        usual, here, nearby = (
            list(filter(input_changes.is_float, layout.values(call(model, copy.deepcopy(given)))))
            for given in (inputs, far, input_domain.with_roundings(far))
        )
    except Exception:  # noqa: BLE001 (the problem's code may raise anything for inputs outside its domain)
        return iterated_inputs.FACTOR
    is_far = iterated_inputs.are_well_behaved(usual, here, nearby)
    return iterated_inputs.FAR_FACTOR if is_far else iterated_inputs.FACTOR


def _signed(call: Call, model: Any, inputs: list[Any], missed: Limits) -> frozenset[int]:
    """Inputs of one sign whose negation lets one more operator see both signs, and leaves the
    answer finite: all, or the first of them that does alone.
    """
    leaves = list(layout.values(inputs))
    some = frozenset(
        at for at, x in enumerate(leaves) if _has_one_sign(x) and input_changes.negated(x) is not x
    )
    return _first_that(
        some,
        lambda these: _reaches(
            call,
            model,
            input_changes.changed(inputs, these, input_changes.negated),
            lambda now: now.one_sided < missed.one_sided,
        ),
        wanted=bool(missed.one_sided),
    )


def _unsorted(call: Call, model: Any, inputs: list[Any], missed: Limits) -> frozenset[int]:
    """Sorted inputs that the reference sorts itself."""
    some = frozenset(
        at
        for at, x in enumerate(layout.values(inputs))
        if input_changes.is_float(x) and input_domain.is_sorted(x)
    )
    return _first_that(
        some - missed.searched,
        lambda these: _reaches(
            call,
            model,
            input_changes.changed(inputs, these, input_changes.shuffled),
            lambda now: now.already_sorted < missed.already_sorted,
        ),
        wanted=bool(missed.already_sorted),
    )


def _first_that(
    some: frozenset[int], reaches: Callable[[frozenset[int]], bool], *, wanted: bool
) -> frozenset[int]:
    """All of `some` if they reach something together, else the first that does
    alone; none if nothing is wanted.
    """
    if not some or not wanted:
        return frozenset()
    alone = [frozenset({at}) for at in sorted(some)] if len(some) > 1 else []
    return next((these for these in (some, *alone) if reaches(these)), frozenset())


def _reaches(
    call: Call, model: Any, inputs: list[Any], is_better: Callable[[Limits], bool]
) -> bool:
    try:
        now, answer = _missed(call, model, copy.deepcopy(inputs))
    except Exception:  # noqa: BLE001 (the problem's code may raise anything for inputs outside its domain)
        return False
    return is_better(now) and all(
        bool(x.isfinite().all()) for x in layout.values(answer) if input_changes.is_float(x)
    )


def _named(
    call: Call,
    model: Any,
    inputs: list[Any],
    others: list[Any],
    missed: Limits,
    device: torch.device,
) -> tuple[tuple[int, float], ...]:
    """Inputs and values that the reference compares them with, or beyond the range of
    integers that it only computes with, if it runs with those.  `others`: another draw.
    """
    pairs = enumerate(zip(layout.values(inputs), layout.values(others), strict=True))
    varying = {at: x for at, (x, y) in pairs if not layout.same([x], [y])}
    named = (*sorted(missed.named), *missed.integers.beyond(varying))
    if not named:
        return ()
    twin, leaves = redrawn_inputs.on_host(model, inputs, device)
    given = redrawn_inputs.with_leaves(inputs, leaves)
    for these in (named, *((each,) for each in named if len(named) > 1)):
        if _reaches(call, twin, input_changes.with_named(given, these), lambda _: True):
            return these
    return ()


def _has_one_sign(x: Any) -> bool:
    if not input_changes.is_float(x) or input_domain.are_normed(x) or input_domain.is_whole(x):
        return False
    lowest, highest = x.aminmax()
    return bool(((lowest >= 0) & (highest > lowest)) | ((highest <= 0) & (lowest < highest)))
