"""Inputs and parameters that do not affect a reference's output: drawn anew, they
leave it unchanged.

A candidate may omit them and be right (hacks 7), and the roofline's floor counts bytes that need
not be read.  Tested in the reference's process, once for each problem.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from workers.protocol import layout

MOST = 64
"""Parameters that are tested."""
LOOK_S = 0.3
"""Time limit in seconds: a slow reference is tested for its inputs and a few of its parameters."""


def insensitive_names(
    call: Callable[[Any, list[Any]], Any],
    model: Any,
    inputs: list[Any],
    others: list[Any],
    outputs: Any,
) -> tuple[str, ...]:
    """Names, such as `input 1` and `conv.bias`, of values that can change while `call(model,
    inputs)` still gives `outputs`.  The model is not changed.

    `others`: inputs under another seed; an input that is the same in both draws is not tested.
    """
    until = time.monotonic() + LOOK_S
    found = []
    for name, changed, given in _changes(copy.deepcopy(model), inputs, others):
        if _gives(outputs, call, changed, given):
            found.append(name)
        if time.monotonic() > until:
            break
    return tuple(found)


def _gives(usual: Any, call: Callable[[Any, list[Any]], Any], model: Any, given: list[Any]) -> bool:
    """Test whether the answer to changed values is the usual one.  An error says that they have an
    effect: an index and the table that it was drawn for, say.
    """
    try:
        return layout.same(usual, call(model, given))
    except torch.OutOfMemoryError:
        raise
    except Exception:  # noqa: BLE001 (the problem's code may raise anything for inputs that do not belong together)
        return False


def _changes(
    model: Any, inputs: list[Any], others: list[Any]
) -> Iterator[tuple[str, Any, list[Any]]]:
    """Each input and parameter in turn: its name, and the model and inputs in which
    it alone is drawn anew.
    """
    for index, (mine, theirs) in enumerate(zip(inputs, others, strict=True)):
        if not layout.same(mine, theirs):
            yield (
                f"input {index}",
                model,
                copy.deepcopy([*inputs[:index], theirs, *inputs[index + 1 :]]),
            )
    if not isinstance(model, torch.nn.Module):
        return
    for name, parameter in list(model.named_parameters())[:MOST]:
        if parameter.is_floating_point() and parameter.element_size() > 1 and parameter.numel():
            kept = parameter.detach().clone()
            with torch.no_grad():
                parameter.copy_(torch.randn_like(kept) * (1 + kept.abs().max()))
            yield name, model, copy.deepcopy(inputs)
            with torch.no_grad():
                parameter.copy_(kept)
