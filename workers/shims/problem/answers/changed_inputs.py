"""Inputs that a reference changes beside its outputs, such as a key-value cache.

Where it changes one in every call, and alike for the same inputs, the content of that input after a
call belongs to the problem's answer (`ProblemSpec.compared_inputs`).  An input that is returned is
compared as an output already.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from workers.protocol import layout
from workers.protocol.problem_spec import ProblemSpec
from workers.shims import returned_outputs
from workers.shims.problem import problem_forms
from workers.shims.problem.answers import rounding
from workers.shims.problem.reference_session import call, write


def find(
    model: Any, given: Callable[[], list[Any]], others: list[Any], changed: list[int]
) -> tuple[int, ...]:
    """The `changed` leaves that belong to the answer.

    `given`: a copy of the inputs that were changed; `others`: inputs of another draw.
    """
    if not changed:
        return ()
    inputs = given()
    nodes = list(layout.leaves(layout.describe(inputs)))
    value, one = _after(model, inputs)
    _, two = _after(model, given())
    _, other = _after(model, copy.deepcopy(others))
    unlike = problem_forms.changed(others, other)
    returned = [_memory(each) for each in layout.values(value) if isinstance(each, torch.Tensor)]
    return tuple(
        index
        for index in changed
        if index in unlike
        and layout.describe(one[index]) == nodes[index]
        and rounding.differs_by_rounding([one[index]], [two[index]])
        and not any(
            at == _memory(one[index])[0] and size >= one[index].numel() for at, size in returned
        )
    )


def _after(model: Any, inputs: list[Any]) -> tuple[Any, list[Any]]:
    """The value that a call returns, and the leaves of its inputs after it."""
    value = call(model, inputs)
    return value, list(layout.values(inputs))


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    """Address of a tensor's storage, and number of its elements."""
    return tensor.untyped_storage().data_ptr(), tensor.numel()


def joined(value: Any, inputs: list[Any], compared: tuple[int, ...]) -> Any:
    """The answer to a call: the returned value, with the inputs that belong to it."""
    if not compared:
        return value
    leaves = list(layout.values(inputs))
    return [value, *(leaves[index] for index in compared)]


def for_slot(spec: ProblemSpec, value: Any, inputs: list[Any]) -> Any:
    """The answer to a call as a slot holds it: inputs in the order of their memory."""
    found = _in_memory_order(spec, inputs)
    return [value, *found] if found else value


def _in_memory_order(spec: ProblemSpec, inputs: list[Any]) -> list[torch.Tensor]:
    """The inputs that belong to the answer.  The candidate's are compared as bytes of its input
    slot, which holds a transposed tensor as it is.
    """
    if not spec.compared_inputs:
        return []
    values, nodes = list(layout.values(inputs)), list(layout.leaves(spec.inputs))
    return [
        values[index].permute(layout.memory_order(nodes[index])) for index in spec.compared_inputs
    ]


def answers(compared: tuple[int, ...]) -> Callable[[Any, list[Any]], Any]:
    """Function that calls a model and gives its whole answer."""
    return lambda model, inputs: joined(call(model, inputs), inputs, compared)


def deliver(spec: ProblemSpec, value: Any, inputs: list[Any], views: list[torch.Tensor]) -> None:
    """Copy the answer to a call into a slot.  Raises RefusedOutputError where the returned
    value differs from the spec.
    """
    returned = len(views) - len(spec.compared_inputs)
    returned_outputs.deliver(value, spec.outputs, views[:returned])
    write(views[returned:], _in_memory_order(spec, inputs))
