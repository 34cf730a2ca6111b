"""Inputs changed so that a reference's call misses fewer of the limits that it missed before.

Each change is made to all inputs that it fits, or to the first alone, and counts where the
reference's answer stays finite.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Collection
from typing import Any

import torch

from workers.backends.support.time_limit import TimeLimit
from workers.protocol import layout
from workers.shims.problem.inputs import input_changes, input_domain
from workers.shims.problem.observers.number_decisions import NumberDecisions
from workers.shims.problem.observers.one_signed_products import OneSignedProducts
from workers.shims.problem.observers.reference_limits import Limits
from workers.shims.problem.reference_session import call

Look = Callable[[Any, list[Any]], tuple[Any, bool]]
"""A call under an observer: gives the observer, and whether the call's answer is defined."""

LIMIT_S = 5.0
"""Processor seconds of a call with changed inputs: a loop may never end on them."""

MOST_EMPTIED = 4
"""Most inputs of which it is tried whether the reference is finite with rows of zeros."""


def missed_by(model: Any, inputs: list[Any], *, traits: bool = False) -> tuple[Limits, Any]:
    """Values that a call misses, and its answer.  The call may change the inputs.  `traits`: see
    Limits.
    """
    limits = Limits(layout.values(inputs), traits=traits)
    with limits:
        answer = call(model, inputs)
    return limits, answer


def _limits(model: Any, inputs: list[Any], *, traits: bool = False) -> tuple[Limits, bool]:
    """The same as a look: an answer for which NaN was made an integer is not defined."""
    limits, answer = missed_by(model, inputs, traits=traits)
    return limits, _is_defined(answer) and not limits.invents


def _unwatched(model: Any, inputs: list[Any]) -> tuple[None, bool]:
    return None, _is_defined(call(model, inputs))


def _is_defined(answer: Any) -> bool:
    return all(map(input_changes.is_finite, layout.values(answer)))


def is_finite_on(model: Any, inputs: list[Any], missed: Limits) -> bool:
    """Test whether the reference has a finite answer to these inputs.  `missed`: those of a call
    on its own inputs.
    """
    look: Look = _limits if missed.may_invent else _unwatched
    return reaches(model, inputs, lambda _: True, look)


def are_changed(given: list[Any], inputs: list[Any]) -> bool:
    """Test whether a change made any new tensor of these inputs."""
    pairs = zip(layout.values(given), layout.values(inputs), strict=True)
    return any(one is not other for one, other in pairs)


def signed(model: Any, inputs: list[Any], missed: Limits) -> frozenset[int]:
    """Inputs of one sign whose negation lets one more operator see both signs, or values in no
    order (sums of positive numbers ascend), and leaves the answer finite: all, or the first of them
    that does alone.  Not those that are maxima of other inputs' sizes, such as a quantiser's.
    """
    floats = [x for x in layout.values(inputs) if input_changes.is_float(x)]
    are_sorted = any(map(input_domain.is_sorted, floats))

    def fits(x: Any) -> bool:
        return input_changes.has_one_sign(x) and not any(
            input_domain.are_sizes_of(x, other) for other in floats
        )

    return _first_with_fewer(
        model,
        inputs,
        fits,
        input_changes.negated,
        lambda limits: limits.one_sided + (0 if are_sorted else limits.already_sorted),
        missed,
    )


def balanced(model: Any, inputs: list[Any], missed: Limits) -> frozenset[int]:
    """Inputs of one sign with whose signs at random fewer products have factors of one sign."""
    return _first_with_fewer(
        model,
        inputs,
        input_changes.has_one_sign,
        input_changes.balanced,
        lambda limits: limits.averaging,
        missed,
    )


def balanced_by_signs(model: Any, inputs: list[Any]) -> frozenset[int]:
    """The same with a look at products alone, which reads no other operator's values."""

    def products(model: Any, inputs: list[Any]) -> tuple[OneSignedProducts, bool]:
        with OneSignedProducts() as found:
            answer = call(model, inputs)
        return found, _is_defined(answer)

    return _first_with_fewer(
        model,
        inputs,
        input_changes.has_one_sign,
        input_changes.balanced,
        lambda found: found.averaging,
        products(model, copy.deepcopy(inputs))[0],
        look=products,
    )


def emptied(
    model: Any, inputs: list[Any], missed: Limits, *, may_stop: bool = False
) -> frozenset[int]:
    """Inputs of which some rows may be empty: the reference stays finite.  `may_stop`: its loops
    end once a change is small; relative to zeros none is, so that numbers which keep away from zero
    are left alone.
    """
    found: frozenset[int] = frozenset()
    some = [
        at
        for at, x in enumerate(layout.values(inputs))
        if input_changes.may_be_emptied(x, divides=missed.divides)
        and not (may_stop and input_changes.keeps_from_zero(x))
    ]
    for at in some[:MOST_EMPTIED]:
        changed = input_changes.changed(inputs, found | {at}, input_changes.emptied)
        if are_changed(changed, inputs) and is_finite_on(model, changed, missed):
            found |= {at}
    return found


def zeroed(model: Any, inputs: list[Any], missed: Limits) -> frozenset[int]:
    """Inputs that as a whole may be zeros, and of which the reference then decides otherwise on a
    single number, such as a norm that it compares with zero.
    """
    if not missed.decides:
        return frozenset()
    usual, _ = _decided(model, copy.deepcopy(inputs))
    found: frozenset[int] = frozenset()
    for at, x in enumerate(layout.values(inputs)) if usual.decisions else ():
        if input_changes.is_float(x) and x.numel() > 1 and not input_domain.are_normed(x):
            changed = input_changes.changed(inputs, {at}, torch.zeros_like)
            is_other = functools.partial(_decides_otherwise, before=usual.decisions)
            if reaches(model, changed, is_other, _decided):
                found |= {at}
    return found


def _decides_otherwise(now: NumberDecisions, before: list[bool]) -> bool:
    return now.decisions != before


def _decided(model: Any, inputs: list[Any]) -> tuple[NumberDecisions, bool]:
    with NumberDecisions() as decided:
        answer = call(model, inputs)
    return decided, _is_defined(answer)


def loosened(model: Any, inputs: list[Any], missed: Limits) -> frozenset[int]:
    """Inputs with a trait that the reference restores: without it fewer operators change nothing.
    Rows of length or sum one count where any operator does; other traits where the input itself is
    given back, because a kernel may read half of a symmetric matrix.
    """
    found: frozenset[int] = frozenset()
    for at, x in enumerate(layout.values(inputs)):
        if at in missed.searched or not input_changes.may_be_loosened(x):
            continue
        any_idle = bool(missed.idle.idle) and input_domain.are_normed(x)
        if not (missed.idle.restoring[at] or any_idle):
            continue  # there is no operator less
        is_better = functools.partial(_is_loosened, before=missed, at=at, any_idle=any_idle)
        changed = input_changes.changed(inputs, {at}, input_changes.loosened)
        if reaches(model, changed, is_better, functools.partial(_limits, traits=True)):
            found |= {at}
    return found


def _is_loosened(now: Limits, *, before: Limits, at: int, any_idle: bool) -> bool:
    return now.idle.fewer_than(before.idle, at, any_idle=any_idle)


def deepened(model: Any, inputs: list[Any], missed: Limits) -> frozenset[int]:
    """Inputs of both signs; far slices of them give one more operator far extremes."""
    return _first_with_fewer(
        model,
        inputs,
        input_changes.is_float,
        input_changes.deepened,
        lambda limits: limits.shallow,
        missed,
    )


def unsorted(model: Any, inputs: list[Any], missed: Limits) -> frozenset[int]:
    """Sorted inputs that the reference sorts itself, or chooses from by their order."""
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
    number: Callable[[Any], int],
    missed: Limits | OneSignedProducts,
    *,
    without: Collection[int] = (),
    look: Look = _limits,
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
        if reaches(model, changed, lambda now: number(now) < number(missed), look):
            return these
    return frozenset()


def reaches(
    model: Any, inputs: list[Any], is_better: Callable[[Any], bool], look: Look = _limits
) -> bool:
    """Test whether the reference's answer to these inputs is defined, and a call with them misses
    limits that are `is_better`.  Raises TimeoutError after LIMIT_S.
    """
    try:
        with TimeLimit(LIMIT_S):
            now, is_defined = look(model, copy.deepcopy(inputs))
    except TimeoutError:
        raise
    except Exception:  # noqa: BLE001 (the problem's code may raise anything for inputs outside its domain)
        return False
    return is_defined and is_better(now)
