"""Inputs that reach branches of the reference which the problem's own
inputs do not reach.

Kinds, in addition to those that only change a distribution (workers/protocol/input_variants.py):

* Reaching: if a limit of an operator is missed by all values (reference_limits.py),
  half of the rows of the inputs, or scattered elements, are scaled until some reach it; the same
  for zero, where a sum has one sign (a margin), and for a softmax, until exp overflows.  Inputs
  between −1 and 1 leave that range if nothing else reaches a limit, and if they become no index.
* Signed: if an operator that treats both signs differently has values of one sign, half of the
  elements of inputs of one sign are negated, in some slices all (of those, a maximum is negative).
  If no maximum of values of both signs lies far below zero, some slices are moved there.
* Balanced: if the reference multiplies matrices of one sign, inputs of one sign receive random
  ones.
* Emptied: if the reference divides by tensors, a few rows of those inputs are zeros with which its
  answer stays finite; so are rows of masks, and others hide nothing.
* Named: a value that the reference compares an input with, and which never occurs, is
  put into some of its elements; into integers that are only computed with, some beyond their range.
* Unsorted: if the reference sorts sorted inputs again, they are shuffled.
* Redrawn: inputs that are the same in two draws are drawn anew (redrawn_inputs.py).
* Held, diagonal, stretched, lasting: if the reference iterates, inputs on which every step tells
  (iterated_inputs.py).  Stretched also where it computes functions of the elements of a bounded
  input: a table need not hold beyond.
* Aligned: if the reference chooses the largest results, or a limit is missed, some rows are put
  into the order of a layer's weights (aligned_inputs.py).
* Partly: all that apply of redrawn, named, reaching, signed, unsorted and stretched in one call,
  each in a few rows or in a quarter of an input.

Planned in the reference's process, once for each problem.  This does not guard
against limits that Python compares with (`x.max().item() > 1e4`), integers beyond a
limit that is applied to a result, and
bounded inputs that must not grow (a probability).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

import torch

from workers.protocol import layout
from workers.protocol.input_variants import Variant
from workers.protocol.reference_work import ReferenceWork
from workers.shims.problem import memory_estimate
from workers.shims.problem.answers import pieces
from workers.shims.problem.inputs import (
    aligned_inputs,
    input_changes,
    input_domain,
    iterated_inputs,
    planned_inputs,
    redrawn_inputs,
    telling_inputs,
)
from workers.shims.problem.inputs.input_changes import Scaling
from workers.shims.problem.inputs.planned_inputs import ITERATED, Plan
from workers.shims.problem.observers import softmax_arguments
from workers.shims.problem.observers.reference_limits import Limits
from workers.shims.problem.reference_session import call

NO_WORK = ReferenceWork()

ATTEMPTS = 3
"""Factors that are tried, each four times as large as the one before."""

LARGEST_FACTOR = 1e6

BEYOND = 8.0
"""Multiple of a limit that scaled values reach."""

LARGEST_BYTES = pieces.FROM_BYTES
"""Largest size of examined inputs, of which several copies are made.  Of a larger problem a piece
is examined, if its rows are independent; else nothing.
"""

LARGEST_PRODUCTS = 1 << 31
"""Largest size of inputs of which products are examined, as a whole."""

ONE_SIDED_FACTORS = (8.0, 64.0)
"""Factors that are tried for operators that treat both signs differently, on values of one sign."""

MOST_EMPTIED = 4
"""Most inputs of which it is tried whether the reference is finite with rows of zeros."""

UNANIMOUS_FACTORS = (64.0, 4096.0)
"""Factors that are tried for comparisons of two tensors of which one is larger everywhere."""


def plan(
    model: Any,
    draw: Callable[[], list[Any]],
    device: torch.device,
    work: ReferenceWork = NO_WORK,
) -> Plan:
    """Plan of changes for a problem.  `draw`: returns new inputs each time, of a call or of a piece
    (pieces.py); `work`: that of a call.  The model is not changed.
    """
    inputs = draw()
    size = memory_estimate.tensor_bytes(inputs)
    if size > LARGEST_PRODUCTS:
        return Plan()
    if size > LARGEST_BYTES:
        return Plan(balanced=_balanced(model, inputs, _missed(model, copy.deepcopy(inputs))[0]))
    given = copy.deepcopy(inputs)
    with iterated_inputs.Iterations(model, layout.values(given)) as iterations:
        missed, _ = _missed(model, given)
    others = draw()
    same = redrawn_inputs.fixed(inputs, others, missed.integers.positions)
    fixed = redrawn_inputs.standing(model, inputs, same, device, work)
    scaling = _scaling(model, inputs, missed)
    found = Plan(
        scaling=scaling,
        fixed=fixed,
        signed=_signed(model, inputs, missed),
        named=_named(model, inputs, others, missed, device),
        unsorted=_unsorted(model, inputs, missed),
        deepened=_deepened(model, inputs, missed),
        balanced=_balanced(model, inputs, missed),
        emptied=_emptied(model, inputs, missed),
        aligned=_aligned(model, inputs, missed),
        multiplies=iterations.multiplies,
    )
    beyond: Collection[Variant] = ()
    if iterations.found:
        beyond = ITERATED
    elif missed.computes_elements and not (scaling and scaling.leaves_bounds):
        beyond = (Variant.STRETCHED,)
    if beyond and not missed.needs_range:
        found = replace(found, iterated=_iterated(model, inputs, found, beyond))
    if iterations.found and Variant.STRETCHED in found.iterated:
        found = replace(found, stretch=_stretch(model, inputs))
    if iterations.found and not missed.needs_range:
        found = replace(found, telling=telling_inputs.find(model, inputs))
    is_partial = found.has_parts and _reaches(
        model, planned_inputs.applied(Variant.PARTLY, found, inputs), lambda _: True
    )
    return replace(found, is_partial=is_partial)


def _missed(model: Any, inputs: list[Any]) -> tuple[Limits, Any]:
    """Values that a call misses, and its answer.  The call may change the inputs."""
    limits = Limits(layout.values(inputs))
    with limits:
        answer = call(model, inputs)
    return limits, answer


def _scaling(model: Any, inputs: list[Any], missed: Limits) -> Scaling | None:
    """The first tried change with which the operators reach one more limit, or None."""
    leaves = list(layout.values(inputs))
    has_bounds = any(input_changes.is_float(x) and input_domain.is_bounded(x) for x in leaves)
    for how in _scalings(
        missed, (False, True) if has_bounds and not missed.needs_range else (False,)
    ):
        scaled = input_changes.scaled(inputs, how)
        if _are_changed(scaled, inputs) and _reaches(
            model, scaled, lambda now: _reach_more(now, missed)
        ):
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


def _iterated(
    model: Any, inputs: list[Any], how: Plan, some: Collection[Variant]
) -> tuple[Variant, ...]:
    """Kinds of inputs for an iteration, of `some`, that change anything, and to which the
    reference has a finite answer.
    """
    several = (
        sum(input_changes.is_float(x) and x.dim() > 1 for x in layout.values(inputs))
        > iterated_inputs.MOST_HELD
    )
    changed = {
        kind: planned_inputs.applied(kind, how, inputs)
        for kind in some
        if not (kind == Variant.HELD and several)
    }
    return tuple(
        kind
        for kind, given in changed.items()
        if _are_changed(given, inputs) and _reaches(model, given, lambda _: True)
    )


def _are_changed(given: list[Any], inputs: list[Any]) -> bool:
    pairs = zip(layout.values(given), layout.values(inputs), strict=True)
    return any(one is not other for one, other in pairs)


def _stretch(model: Any, inputs: list[Any]) -> float:
    """The larger factor on stretched inputs, if the reference allows it; else the smaller one."""
    far = planned_inputs.applied(
        Variant.STRETCHED, Plan(stretch=iterated_inputs.FAR_FACTOR), inputs
    )
    try:
        usual, here, nearby = (
            list(filter(input_changes.is_float, layout.values(call(model, copy.deepcopy(given)))))
            for given in (inputs, far, input_domain.with_roundings(far))
        )
    except Exception:  # noqa: BLE001 (the problem's code may raise anything for inputs outside its domain)
        return iterated_inputs.FACTOR
    is_far = iterated_inputs.are_well_behaved(usual, here, nearby)
    return iterated_inputs.FAR_FACTOR if is_far else iterated_inputs.FACTOR


def _signed(model: Any, inputs: list[Any], missed: Limits) -> frozenset[int]:
    """Inputs of one sign whose negation lets one more operator see both signs, and leaves the
    answer finite: all, or the first of them that does alone.
    """
    return _first_with_fewer(
        model,
        inputs,
        input_changes.has_one_sign,
        input_changes.negated,
        lambda limits: limits.one_sided,
        missed,
    )


def _balanced(model: Any, inputs: list[Any], missed: Limits) -> frozenset[int]:
    """Inputs of one sign with whose signs at random fewer products have factors of one sign."""
    return _first_with_fewer(
        model,
        inputs,
        input_changes.has_one_sign,
        input_changes.balanced,
        lambda limits: limits.averaging,
        missed,
    )


def _emptied(model: Any, inputs: list[Any], missed: Limits) -> frozenset[int]:
    """Inputs of which some rows may be empty: the reference stays finite."""
    found: frozenset[int] = frozenset()
    leaves = enumerate(layout.values(inputs))
    some = [at for at, x in leaves if input_changes.may_be_emptied(x, divides=missed.divides)]
    for at in some[:MOST_EMPTIED]:
        changed = input_changes.changed(inputs, found | {at}, input_changes.emptied)
        if _are_changed(changed, inputs) and _reaches(model, changed, lambda _: True):
            found |= {at}
    return found


def _deepened(model: Any, inputs: list[Any], missed: Limits) -> frozenset[int]:
    """Inputs of both signs; far slices of them give one more operator far extremes."""
    return _first_with_fewer(
        model,
        inputs,
        input_changes.is_float,
        input_changes.deepened,
        lambda limits: limits.shallow,
        missed,
    )


def _aligned(
    model: Any, inputs: list[Any], missed: Limits
) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Inputs of which rows are put into the order of weights, if the reference chooses some of its
    results, or reaches one more limit with them.
    """
    if not (missed.chooses or missed.above or missed.below):
        return ()
    weights = aligned_inputs.weights_of(model)
    found = tuple(
        (at, names)
        for at, x in enumerate(layout.values(inputs))
        if input_changes.is_float(x) and (names := aligned_inputs.fitting(x, weights))
    )
    if not found:
        return ()
    changed = planned_inputs.applied(Variant.ALIGNED, Plan(aligned=found), inputs, model)
    tells = _reaches(model, changed, lambda now: missed.chooses or _reach_more(now, missed))
    return found if tells else ()


def _unsorted(model: Any, inputs: list[Any], missed: Limits) -> frozenset[int]:
    """Sorted inputs that the reference sorts itself."""
    return _first_with_fewer(
        model,
        inputs,
        lambda x: input_changes.is_float(x) and input_domain.is_sorted(x),
        input_changes.shuffled,
        lambda limits: limits.already_sorted,
        missed,
        without=missed.searched,
    )


def _first_with_fewer(
    model: Any,
    inputs: list[Any],
    may_change: Callable[[Any], bool],
    change: Callable[[torch.Tensor], torch.Tensor],
    number: Callable[[Limits], int],
    missed: Limits,
    *,
    without: Collection[int] = (),
) -> frozenset[int]:
    """All inputs that `may_change` and do, or the first of them alone, whose `change` makes a
    `number` of missed limits smaller; none if it is zero.  `without`: indices of inputs left out.
    """
    if not number(missed):
        return frozenset()
    some = frozenset(
        at
        for at, x in enumerate(layout.values(inputs))
        if at not in without and may_change(x) and change(x) is not x
    )
    alone = [frozenset({at}) for at in sorted(some)] if len(some) > 1 else []
    for these in (some, *alone) if some else ():
        changed = input_changes.changed(inputs, these, change)
        if _reaches(model, changed, lambda now: number(now) < number(missed)):
            return these
    return frozenset()


def _reaches(model: Any, inputs: list[Any], is_better: Callable[[Limits], bool]) -> bool:
    try:
        now, answer = _missed(model, copy.deepcopy(inputs))
    except Exception:  # noqa: BLE001 (the problem's code may raise anything for inputs outside its domain)
        return False
    is_defined = all(map(input_changes.is_finite, layout.values(answer))) and not now.invents
    return is_defined and is_better(now)


def _named(
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
    varying = {at: x for at, (x, y) in pairs if not layout.same(x, y)}
    named = (*sorted(missed.named), *missed.integers.beyond(varying))
    if not named:
        return ()
    twin, leaves = redrawn_inputs.on_host(model, inputs, device)
    given = redrawn_inputs.with_leaves(inputs, leaves)
    for these in (named, *((each,) for each in named if len(named) > 1)):
        if _reaches(twin, input_changes.with_named(given, these), lambda _: True):
            return these
    return ()
