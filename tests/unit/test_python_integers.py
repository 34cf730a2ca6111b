"""Whole numbers that a problem gives as such: values vary, sizes and dimensions do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from workers.protocol.input_variants import Variant
from workers.shims.problem.inputs import planned_inputs, python_integers, reaching_inputs


def _rotated(x: torch.Tensor, start: int) -> torch.Tensor:
    angles = torch.arange(start, start + len(x), dtype=torch.float32)[:, None]
    return x * angles.cos()


def _stepped(x: torch.Tensor, step: int) -> torch.Tensor:
    return x / (1 - 0.9**step)


@pytest.mark.parametrize(
    ("model", "number", "is_value"),
    [
        (lambda x, n: torch.roll(x, n, dims=1) * 2.0, 3, True),
        (lambda x, n: x / n, 4096, True),
        (lambda x, n: x + n, -3, True),
        (lambda x, n: x.clamp(max=n), 2, True),
        (lambda x, n: torch.tril(x, n), 0, True),
        (lambda x, n: x[n] * 2.0, 3, True),
        (lambda x, n: x[n : n + 4] * 2.0, 0, True),
        (_rotated, 0, True),
        (_stepped, 10, True),
        (lambda x, n: x[:n] * 2.0, 4, False),
        (lambda x, n: x.sum(dim=n), 1, False),
        (lambda x, n: x.cumsum(dim=n), 1, False),
        (lambda x, n: torch.softmax(x, dim=n), -1, False),
        (lambda x, n: torch.topk(x, n).values, 4, False),
        (lambda x, n: x.view(n, -1).sum(0), 4, False),
        (lambda x, n: functional.group_norm(x[None], n), 4, False),
        (lambda x, n: x.exp() if n == 7 else x.sin(), 7, False),
        (lambda x, n: sum((x for _ in range(n)), torch.zeros(())), 4, False),
        (lambda x, n: x + 2.0 if n else x, True, False),
    ],
)
def test_numbers_that_are_values_vary(
    model: Callable[..., Any], number: int, is_value: bool
) -> None:
    torch.manual_seed(0)
    plan = reaching_inputs.plan(
        model, lambda: [torch.randn(8, 8), number], torch.device("cpu"), reaching_inputs.NO_WORK
    )
    assert plan.fixed == (frozenset({1}) if is_value else frozenset())
    if is_value:
        _, other = planned_inputs.applied(Variant.REDRAWN, plan, [torch.randn(8, 8), number])
        assert type(other) is int
        assert other != number


@pytest.mark.parametrize(
    ("number", "least", "most"), [(0, 1, 1), (1, 2, 2), (-1, -2, -2), (9, 4, 8), (-9, -8, -4)]
)
def test_other_numbers_have_the_same_sign(number: int, least: int, most: int) -> None:
    torch.manual_seed(0)
    drawn = {python_integers.redrawn(number) for _ in range(200)}
    assert (min(drawn), max(drawn)) == (least, most)
