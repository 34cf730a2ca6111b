"""Results of a problem's `get_inputs` and `forward`, held to the forms
that can be evaluated.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

from workers.protocol import layout

EMPTY = "the reference's outputs have no elements: there is no answer that could be wrong"
"""Message about a problem with empty outputs."""

RETURN_CHANGED = (
    "; it changes its inputs, but not in every call, or not alike for the same ones: expected it to"
    " return what it changes"
)
"""Rest of that message if the reference writes into its inputs."""


def in_order(inputs: dict[str, Any], model: Any) -> list[Any]:
    """Inputs by name, in the order of the parameters of `forward` of a model's class.  Raises
    TypeError where they do not fit.
    """
    try:
        bound = inspect.signature(getattr(model, "forward", None) or model.__call__).bind(
            None, **inputs
        )
    except TypeError as error:
        raise TypeError(
            f"get_inputs: {error}: the dict has {', '.join(map(str, inputs))}"
        ) from error
    if bound.kwargs:
        raise TypeError(
            f"get_inputs: expected no keyword-only arguments, got {', '.join(bound.kwargs)}"
        )
    return list(bound.args[1:])


def changed(before: list[Any], after: list[Any]) -> list[int]:
    """Indices of tensors among the inputs that a call changed.  Raises ValueError if
    it added or removed any.
    """
    old, new = list(layout.values(before)), list(layout.values(after))
    if len(old) != len(new):
        raise ValueError(
            f"the reference changes a container among its inputs: {len(old)} values before,"
            f" {len(new)} after"
        )
    return [
        i for i, x in enumerate(old) if isinstance(x, torch.Tensor) and not layout.same(x, new[i])
    ]


def has_outputs(outputs: Any) -> bool:
    """Test whether outputs have elements.  Raises UnsupportedError for those of unknown types."""
    try:
        layout.describe(outputs)
    except layout.UnsupportedError as error:
        raise layout.UnsupportedError(f"the reference's outputs: {error}") from error
    return any(
        not isinstance(value, torch.Tensor) or value.numel() > 0 for value in layout.values(outputs)
    )


def without_outputs(*, changes_inputs: bool) -> str:
    """Message about a problem by a model of which nothing can be compared."""
    return f"{EMPTY}{RETURN_CHANGED if changes_inputs else ''}"


def check_constant(outputs: Any, others: Any) -> None:
    """Raise ValueError if the shapes of the answers to two draws differ: a candidate that answers a
    third would be held to the shapes of the first.
    """
    one, two = ([_shape(value) for value in layout.values(each)] for each in (outputs, others))
    if one != two:
        differing = next(
            ((a, b) for a, b in zip(one, two, strict=False) if a != b),
            (f"{len(one)}", f"{len(two)}"),
        )
        raise ValueError(
            "the reference's outputs have other shapes for other inputs: expected outputs of"
            f" constant shape, got {differing[0]} and {differing[1]}"
        )


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()
