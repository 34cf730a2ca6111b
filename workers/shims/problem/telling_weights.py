"""Weights with which a reference's operators reach limits that its own weights miss.

Factors on each weight are tried (workers/protocol/moved_weights.py) until one operator less misses
a limit, changes nothing or vanishes, or half as many do (observers/weight_limits.py).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from time import process_time
from typing import Any

import torch

from workers.protocol import layout, moved_weights
from workers.shims.problem.inputs.input_changes import is_finite
from workers.shims.problem.observers.weight_work import WeightWork
from workers.shims.problem.reference_session import call

MOST, SEARCH_S = 8, 3.0
"""Most weights for which factors are searched, and the processor time after which no further one is
tried.
"""


def factors(model: Any, inputs: list[Any], missed: Mapping[str, float]) -> dict[str, float]:
    """The first factor on each weight with which its operators miss less than this, by its name,
    and the answer is finite; weights without one are left out.  Neither model nor inputs are
    changed.
    """
    until, found = process_time() + SEARCH_S, {}
    for name, before in list(missed.items())[:MOST]:
        most = max(before / 2, before - 1)
        for factor in moved_weights.FACTORS:
            if process_time() < until and _misses(model, inputs, name, factor) <= most:
                found[name] = factor
                break
    return found


def _misses(model: Any, inputs: list[Any], name: str, factor: float) -> float:
    """Count of limits that a changed weight misses; infinity if the answer is not finite."""
    parameter = model.get_parameter(name).data
    before = parameter.clone()
    generator = torch.Generator(parameter.device).manual_seed(0)
    try:
        moved = moved_weights.moved(before.flatten(), factor, generator)
        parameter.copy_(moved_weights.in_order(before.flatten(), moved).view(before.shape))
        given = copy.deepcopy(inputs)
        with WeightWork(model, layout.values(given)) as weights:
            answer = call(model, given)
    except Exception:  # noqa: BLE001 (the problem's code may raise anything with other weights)
        return float("inf")
    finally:
        parameter.copy_(before)
    is_defined = all(map(is_finite, layout.values(answer)))
    return weights.missed[name] if is_defined else float("inf")
