"""Arguments and results of operators that observers look at."""

from __future__ import annotations

from typing import Any

import torch

from workers.shims.problem.observers import limited_operators

MOST_LIMITS = 4096
"""Most elements of a tensor of equal limits, such as one for each channel."""


def is_odd_norm(name: str, args: Any) -> bool:
    """Test for a norm that takes absolute values: of an even order none does."""
    order = next(iter(args[1:2]), None) if name in limited_operators.NORMS else None
    return order is not None and bool(order % 2)


def norms(values: torch.Tensor, p: Any, dim: int) -> torch.Tensor:
    """Norms of a tensor's slices along a dimension, as renorm limits them."""
    flat = values.detach().float().movedim(dim, 0).flatten(1)
    found: torch.Tensor = torch.linalg.vector_norm(flat, ord=float(p), dim=1)
    return found


def is_index_of(found: Any, args: Any) -> bool:
    """Test whether integers were made from floating-point numbers."""
    to_integers = isinstance(found, torch.Tensor) and not (
        found.is_floating_point() or found.is_complex()
    )
    return to_integers and found.dtype != torch.bool and source(args).is_floating_point()


def source(args: Any) -> torch.Tensor:
    """The tensor that a conversion reads."""
    found: torch.Tensor = args[-1] if isinstance(args[-1], torch.Tensor) else args[0]
    return found


def bounds(name: str, args: Any, kwargs: Any) -> list[Any]:
    """Numbers or tensors with which a comparison or a clamp compares its first argument."""
    most = 3 if name in limited_operators.CLAMPS else 2
    return [*args[1:most], *kwargs.values()]


def number(value: Any) -> float | None:
    """A limit: a number, or a small tensor of equal ones."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if (
        isinstance(value, torch.Tensor)
        and 0 < value.numel() <= MOST_LIMITS
        and value.dtype != torch.bool
    ):
        first = value.detach().flatten()[0]
        return float(first) if not value.is_complex() and bool((value == first).all()) else None
    return None
