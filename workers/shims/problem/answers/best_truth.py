"""Choice of a reference's truth: the best that is plausible beside its own answer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from workers.backends.support.time_limit import TimeLimit
from workers.protocol import layout
from workers.protocol.roundoff import errors, is_inexact
from workers.shims.problem.answers import true_answer
from workers.shims.problem.answers.true_answer import Truth
from workers.shims.problem.inputs import input_domain

PLAUSIBLE = 0.1
"""Largest difference between a truth and the reference's own answer at which the truth
is used: relative L2 error, or share of differing elements of an exact output.  No
rounding of a usable answer is larger.
"""

TRIED_S = 10.0
"""Time limit in seconds for a truth with lifted casts, because it is computed for every call."""

COULD_BE = 0.5
"""PLAUSIBLE for the twin without lifted casts if no other truth is plausible: for a reference that
decides by rounding errors, its answer is better than none.
"""

NOTHING = 1e6
"""Relative L2 difference from which on the answer in fp64 is nothing beside the reference's own,
as that of a normalisation of single elements: fp64 rounds 5e+08 times as finely as fp32.
"""


def find(
    model: Any,
    inputs: list[Any],
    own: Any,
    answer: Callable[[Any, list[Any]], Any] = lambda returned, _: returned,
) -> Truth:
    """The best plausible truth for a model.  `own`: its answer to these inputs in its own
    precision; `answer(returned, given)`: the answer to a call, of what it returned and its inputs,
    which it may have changed.
    """
    narrowing = true_answer.Narrowing()
    plain, plain_off = _tried(model, inputs, own, Truth.FP64, narrowing, answer=answer)
    if plain_off <= PLAUSIBLE and not narrowing.seen:
        return Truth.FP64  # there are no casts to lift
    lifted, lifted_off = _tried(model, inputs, own, Truth.WIDENED, answer=answer)
    if plain is not None and lifted is not None and layout.same(plain, lifted):
        is_usable = plain_off <= COULD_BE or (
            plain_off >= NOTHING and _is_noise(model, inputs, own, answer)
        )
        return Truth.FP64 if is_usable else Truth.OWN
    if lifted_off <= PLAUSIBLE:
        return Truth.WIDENED
    if plain_off <= PLAUSIBLE:
        return Truth.FP64
    if plain is None or plain_off > COULD_BE:
        _, single_off = _tried(model, inputs, own, Truth.SINGLE, answer=answer)
        return Truth.SINGLE if single_off <= PLAUSIBLE else Truth.OWN
    return Truth.FP64


def _tried(
    model: Any,
    inputs: list[Any],
    own: Any,
    truth: Truth,
    watching: AbstractContextManager[object] | None = None,
    *,
    answer: Callable[[Any, list[Any]], Any],
) -> tuple[Any, float]:
    """The answer under this truth, and the difference of the reference's own answer from it; None
    and infinity if it does not run.  `watching`: context of the call; `answer`: see `find`.
    """
    try:
        with _limit(truth):
            wide, given = true_answer.twin(model, truth), true_answer.widened(inputs, truth)
            with watching or nullcontext():
                found = answer(true_answer.call(wide, given, truth), given)
        mine, theirs = list(layout.values(own)), list(layout.values(found))
        if [_shape(each) for each in mine] != [_shape(each) for each in theirs]:
            return None, float("inf")
        pairs = list(zip(mine, theirs, strict=True))
        inexact = [
            pair
            for pair in pairs
            if isinstance(pair[0], torch.Tensor) and is_inexact(pair[0].dtype)
        ]
        return found, max((_off(*pair) for pair in inexact or pairs), default=0.0)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # noqa: BLE001 (the problem's code may raise anything for types that it does not expect)
        return None, float("inf")


def _is_noise(
    model: Any, inputs: list[Any], own: Any, answer: Callable[[Any, list[Any]], Any]
) -> bool:
    """Test whether the reference's own answer consists of rounding errors: it becomes another one
    where its inputs change by a rounding.  Arguments as in `find`.
    """
    try:
        given = input_domain.with_roundings(inputs)
        changed = answer(true_answer.call(copy.deepcopy(model), given, Truth.OWN), given)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # noqa: BLE001 (the problem's code may raise anything)
        return False
    pairs = zip(layout.values(changed), layout.values(own), strict=True)
    return all(_off(*pair) > COULD_BE for pair in pairs)


def _limit(truth: Truth) -> AbstractContextManager[object]:
    """Context with a time limit for a truth that intercepts each operator."""
    return nullcontext() if truth is Truth.FP64 else TimeLimit(TRIED_S)


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if isinstance(value, torch.Tensor) else None


def _off(mine: Any, theirs: Any) -> float:
    if not isinstance(mine, torch.Tensor):
        return 0.0 if abs(mine - theirs) <= PLAUSIBLE * abs(theirs) else float("inf")
    return errors(mine, theirs)[0]
