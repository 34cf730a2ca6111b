"""A problem's model as its description finds it: time of a call, mode, spread of its answers, and
whether memory holds its twin.
"""

from __future__ import annotations

import copy
import functools
import math
import os
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch

from workers.protocol import layout, problem_spec
from workers.protocol.roundoff import is_inexact
from workers.shims import weights
from workers.shims.problem import problem_forms
from workers.shims.problem.answers import rounding
from workers.shims.problem.answers.true_answer import Truth
from workers.shims.problem.reference_session import call, seconds

COPIES = 4
"""Copies of the parameters besides the twin's: in both arenas and in both models."""

FOR_MODELS = 0.8
"""Share of a device's memory for models, and for the inputs and outputs of calls;
contexts take the rest.
"""

TIMED_CALLS, TIMED_S = 5, 0.1
"""Most calls that are timed to find the fastest, and the total in seconds after
which no further call begins.
"""

DRAWN, DRAWN_S = 8, 0.3
"""Most draws that tell the usual norm of an output, and the time in seconds after which no further
one begins.
"""

ASKED_AGAIN = 3
"""Further draws for an answer of few elements that two draws left the same."""


def parameters(model: Any) -> dict[str, layout.Node]:
    """Types and shapes of the parameters and buffers by name; empty for a model without modules."""
    if not isinstance(model, torch.nn.Module):
        return {}
    return {
        name: layout.describe(tensor.detach().contiguous()) for name, tensor in weights.named(model)
    }


def has_room_for_twin(device: torch.device, parameters: list[layout.Node], call_bytes: int) -> bool:
    """Test whether a device holds both sides' models and arenas, and a copy of the model in fp64.

    `call_bytes`: inputs and outputs of a call, and the most memory that it takes."""
    if device.type != "cuda":
        return True
    total_bytes = int(os.environ["EVALUATION_MEMORY_BYTES"])  # without that of other programs
    models_bytes = COPIES * sum(map(layout.size_of, parameters)) + _twin_bytes(parameters)
    return models_bytes + 2 * call_bytes <= FOR_MODELS * total_bytes


def truth_bytes(peak_bytes: int, parameters: list[layout.Node], best: Truth) -> int:
    """Device memory that the expected outputs of a call take beside the twin.

    `peak_bytes`: the most that the search for `best` took, which makes a twin of its own.
    """
    return 0 if best is Truth.OWN else max(0, peak_bytes - _twin_bytes(parameters))


def _twin_bytes(parameters: list[layout.Node]) -> int:
    return sum(layout.size_of(layout.widened(node)) for node in parameters)


def fastest_us(model: Any, given: Callable[[], list[Any]], device: torch.device) -> float:
    """Microseconds of the fastest of some calls; other evaluations on the device
    slow down some of them.
    """
    times_s: list[float] = []
    while len(times_s) < TIMED_CALLS and sum(times_s) < TIMED_S:
        times_s.append(seconds(device, functools.partial(call, model, given())))
    return min(times_s) * 1e6


def kept(model: Any, inputs: list[Any]) -> Any:
    """Private copy of the answer to a call: some models return the same buffer every time."""
    return copy.deepcopy(call(model, inputs))


def settle_mode(
    model: Any, given: Callable[[], list[Any]], outputs: Any
) -> tuple[bool, problem_spec.Spread]:
    """Mode of the model, and the spread of its answers: the declared mode if the model is a
    function of its inputs in it, else eval mode (dropout).  Sums without a fixed order cause
    spread.  Raises ValueError for a random model.
    """
    torch.manual_seed(0x5EED)  # a state that differs from the first call's
    again = kept(model, given())
    if rounding.differs_by_rounding(outputs, again):
        return bool(getattr(model, "training", False)), _spread(model, given, outputs, again)
    if isinstance(model, torch.nn.Module):
        model.eval()
        one, two = (kept(model, given()) for _ in range(2))
        if rounding.differs_by_rounding(one, two):
            return False, _spread(model, given, one, two)
    raise ValueError(
        "the reference is random: two calls on the same inputs differ by more than rounding, in"
        " eval mode too"
    )


def _spread(model: Any, given: Callable[[], list[Any]], one: Any, two: Any) -> problem_spec.Spread:
    """Differences between answers to the same inputs; empty if two answers are equal
    bit for bit.
    """
    if layout.same(one, two):
        return ()
    return rounding.spread(one, lambda: kept(model, given()))


def is_constant(outputs: Any, different: Any, again: Callable[[], Any]) -> bool:
    """Test whether answers to other inputs are the same.  Raises ValueError for another shape.

    `different`: the answer to other inputs; `again()`: the answer to still others, for an answer of
    few elements, which may be equal by chance (the place of a maximum).
    """
    problem_forms.check_constant(outputs, different)
    if not layout.same(outputs, different):
        return False
    tensors = [each for each in layout.values(outputs) if isinstance(each, torch.Tensor)]
    few = sum(each.numel() for each in tensors) < problem_spec.FEW_ELEMENTS
    return not few or all(layout.same(outputs, again()) for _ in range(ASKED_AGAIN))


def usual_norms(outputs: Any, answer: Callable[[], Any]) -> tuple[float, ...]:
    """Per output, the upper quartile of its L2 norms over some draws; 0 for an output of many
    elements, or of integers (problem_spec.ProblemSpec.usual_norms).

    `outputs`: the answer to one draw; `answer()`: the answer to a new one.
    """
    drawn = [list(map(_norm, layout.values(outputs)))]
    began = perf_counter()
    while any(drawn[0]) and len(drawn) < DRAWN and perf_counter() - began < DRAWN_S:
        drawn.append(list(map(_norm, layout.values(answer()))))
    return tuple(sorted(norms)[3 * len(norms) // 4] for norms in zip(*drawn, strict=True))


def _norm(value: Any) -> float:
    """The norm of an inexact output of few elements; 0 for any other, or if it is not finite."""
    is_tensor = isinstance(value, torch.Tensor) and is_inexact(value.dtype)
    if not is_tensor or value.numel() >= problem_spec.FEW_ELEMENTS:
        return 0.0
    norm = float(torch.linalg.vector_norm(value.flatten().to(torch.complex128)))
    return norm if math.isfinite(norm) else 0.0


def contiguous(node: layout.Node) -> layout.Node:
    """The node without strides: outputs are delivered contiguous."""
    plain = (
        dict(node, items=[contiguous(item) for item in node["items"]])
        if "items" in node
        else dict(node)
    )
    if plain["kind"] == "tensor":
        plain["stride"] = None
    return plain
