"""Inputs that reach branches of the reference which the problem's own
inputs do not reach.

Kinds, in addition to those that only change a distribution (workers/protocol/input_variants.py):

* Reaching: if a limit of an operator is missed by all values (reference_limits.py),
  half of the rows of the inputs, scattered or all elements, are scaled until some reach it; the
  same for zero, where a sum has one sign (a margin), and for a softmax, until exp overflows.
  Inputs between −1 and 1 leave that range if nothing else reaches a limit, and if they become no
  index.
* Signed: if an operator that treats both signs differently has values of one sign, half of the
  elements of inputs of one sign are negated, in some slices all (of those, a maximum is negative).
  If no maximum of values of both signs lies far below zero, some slices are moved there.
* Balanced: if the reference multiplies matrices of one sign, inputs of one sign receive random
  ones.
* Emptied: if the reference divides by tensors, a few rows of those inputs are zeros with which its
  answer stays finite; so are rows of masks, and others hide nothing.  All of an input is zero at
  times, if the reference asks whether a number is zero that no other input makes so.
* Loosened: if an operator gives an input back, or nothing but its argument, because the input has a
  trait (rows of unit length, a symmetric matrix), numbers are moved so that it does not.
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
import functools
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, TypeVar

import torch

from workers.backends.support.time_limit import TimeLimit
from workers.protocol import layout
from workers.protocol.input_variants import Variant
from workers.protocol.reference_work import ReferenceWork
from workers.shims.problem import memory_estimate
from workers.shims.problem.answers import pieces
from workers.shims.problem.inputs import (
    aligned_inputs,
    improving_changes,
    input_changes,
    input_domain,
    iterated_inputs,
    planned_inputs,
    python_integers,
    redrawn_inputs,
    telling_inputs,
    tried_scalings,
)
from workers.shims.problem.inputs.input_changes import Scaling
from workers.shims.problem.inputs.planned_inputs import ITERATED, Plan
from workers.shims.problem.observers.reference_limits import Limits
from workers.shims.problem.reference_session import call

NO_WORK = ReferenceWork()

Found = TypeVar("Found")

PLAN_S, PART_S = 25.0, 12.0
"""Processor seconds for a plan, and for one part of it.  A call of 30,000 operators takes three
while its limits are looked at.
"""

LARGEST_BYTES = pieces.FROM_BYTES
"""Largest size of examined inputs, of which several copies are made.  Of a larger problem a piece
is examined, if its rows are independent; else nothing.
"""

LARGEST_PRODUCTS = 1 << 31
"""Largest size of inputs of which products are examined, as a whole."""

MOST_INPUTS = 12
"""Number of inputs up to which those are found that exp needs to overflow, by a call for each."""


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
        return Plan(faults=(f"{size >> 20} MB of inputs",))
    faults = Faults()
    if size > LARGEST_BYTES:
        look = functools.partial(improving_changes.balanced_by_signs, model, inputs)
        signs = faults.found("products", look, frozenset[int]())
        return Plan(balanced=signs, faults=(*faults, f"{size >> 20} MB of inputs, but for signs"))
    given = copy.deepcopy(inputs)
    iterations = iterated_inputs.Iterations(model, layout.values(given))
    missed = faults.found(
        "limits", lambda: _limits(model, given, iterations), Limits.unknown(given)
    )
    faults += sorted(missed.faults)
    others = draw()

    def fixed() -> frozenset[int]:
        same = redrawn_inputs.fixed(inputs, others, missed.integers.positions)
        same |= python_integers.fixed(model, inputs, others)
        return redrawn_inputs.standing(model, inputs, same, device, work)

    def named() -> tuple[tuple[int, float], ...]:
        return _named(model, inputs, others, missed, device)

    def emptied() -> frozenset[int]:
        return improving_changes.emptied(*some, may_stop=iterations.may_stop)

    nothing, some = frozenset[int](), (model, inputs, missed)
    found = Plan(
        scaling=faults.found("scaling", lambda: _scaling(*some), None),
        fixed=faults.found("redrawn", fixed, nothing),
        signed=faults.found("signed", lambda: improving_changes.signed(*some), nothing),
        named=faults.found("named", named, ()),
        unsorted=faults.found("unsorted", lambda: improving_changes.unsorted(*some), nothing),
        deepened=faults.found("deepened", lambda: improving_changes.deepened(*some), nothing),
        balanced=faults.found("balanced", lambda: improving_changes.balanced(*some), nothing),
        emptied=faults.found("emptied", emptied, nothing),
        zeroed=faults.found("zeroed", lambda: improving_changes.zeroed(*some), nothing),
        loosened=faults.found("loosened", lambda: improving_changes.loosened(*some), nothing),
        aligned=faults.found("aligned", lambda: _aligned(*some), ()),
        multiplies=iterations.multiplies,
    )
    if not missed.needs_range:
        whole = found
        found = faults.found("iterated", lambda: _beyond(*some, whole, iterations), found)
    partly = found
    is_partial = faults.found("partly", lambda: _runs_partly(*some, partly), False)
    return replace(found, is_partial=is_partial, faults=tuple(faults))


class Faults(list[str]):
    """Errors of parts of a plan: each part is found without the others, in a time of its own and
    the rest of the plan's.
    """

    def __init__(self) -> None:
        """Without an error; the plan's time begins."""
        super().__init__()
        self._until = time.process_time() + PLAN_S

    def found(self, part: str, find: Callable[[], Found], otherwise: Found) -> Found:
        """A part of the plan, or `otherwise` if finding it raises: the problem's code may raise
        anything under a dispatch mode.
        """
        try:
            with TimeLimit.at_most(min(PART_S, self._until - time.process_time())):
                return find()
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001 (see above)
            self.append(f"{type(error).__name__} in {part}")
            return otherwise


def _limits(model: Any, inputs: list[Any], iterations: iterated_inputs.Iterations) -> Limits:
    def watched(*given: Any) -> Any:
        with iterations:  # inside, where it sees none of the operators that Limits compares with
            return model(*given)

    with TimeLimit(PART_S):
        return improving_changes.missed_by(watched, inputs, traits=True)[0]


def _beyond(
    model: Any,
    inputs: list[Any],
    missed: Limits,
    found: Plan,
    iterations: iterated_inputs.Iterations,
) -> Plan:
    """The plan with changes for a reference that iterates, or computes functions of elements."""
    some = (model, inputs, missed)
    if not iterations.found:
        is_beyond = found.scaling is not None and found.scaling.leaves_bounds
        kinds = (Variant.STRETCHED,) if missed.computes_elements and not is_beyond else ()
        later = telling_inputs.find_longer(model, inputs) if iterations.may_stop else ()
        return replace(found, iterated=_iterated(*some, found, kinds), telling=later)
    found = replace(found, iterated=_iterated(*some, found, ITERATED))
    if Variant.STRETCHED in found.iterated:
        found = replace(found, stretch=_stretch(model, inputs))
    told = telling_inputs.find(model, inputs)
    if not told and iterations.may_stop:
        told = telling_inputs.find_longer(model, inputs)
    return replace(found, telling=told)


def _runs_partly(model: Any, inputs: list[Any], missed: Limits, found: Plan) -> bool:
    """Test whether the reference runs with all changes in a few places, if there are any."""
    if not found.has_parts:
        return False
    changed = planned_inputs.applied(Variant.PARTLY, found, inputs)
    return improving_changes.is_finite_on(model, changed, missed)


def _scaling(model: Any, inputs: list[Any], missed: Limits) -> Scaling | None:
    """The first tried change with which the operators reach one more limit, or None."""
    leaves = list(layout.values(inputs))
    has_bounds = any(input_changes.is_float(x) and input_domain.is_bounded(x) for x in leaves)
    for how in tried_scalings.of(
        missed, (False, True) if has_bounds and not missed.needs_range else (False,)
    ):
        scaled, last = input_changes.scaled(inputs, how), list[Limits]()

        def is_better(now: Limits, last: list[Limits] = last) -> bool:
            last.append(now)
            return _reach_more(now, missed)

        if improving_changes.are_changed(scaled, inputs) and improving_changes.reaches(
            model, scaled, is_better
        ):
            most = min(len(missed.overflows), len(last[-1].overflows))
            return _of_few_inputs(model, inputs, most, how) if how.scales_peaks else how
    return None


def _of_few_inputs(model: Any, inputs: list[Any], most: int, how: Scaling) -> Scaling:
    """The change `how`, with which exp overflows, without the inputs that it does not need: an
    input that is computed with elsewhere, such as the logarithm of a rate, need not bear a factor
    of a hundred.  `most`: missed overflows of a call with the change.
    """
    floats = [at for at, x in enumerate(layout.values(inputs)) if input_changes.is_float(x)]
    if not 1 < len(floats) <= MOST_INPUTS:
        return how
    left = [most]

    def is_as_good(now: Limits) -> bool:
        left.append(len(now.overflows))
        return left[-1] <= min(left)

    for at in floats:
        fewer = replace(how, kept=how.kept | {at})
        if improving_changes.reaches(model, input_changes.scaled(inputs, fewer), is_as_good):
            how = fewer
    return how


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


def _iterated(
    model: Any, inputs: list[Any], missed: Limits, how: Plan, some: Collection[Variant]
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
        if improving_changes.are_changed(given, inputs)
        and improving_changes.is_finite_on(model, given, missed)
    )


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
    tells = improving_changes.reaches(
        model, changed, lambda now: missed.chooses or _reach_more(now, missed)
    )
    return found if tells else ()


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
        if improving_changes.is_finite_on(twin, input_changes.with_named(given, these), missed):
            return these
    return ()
