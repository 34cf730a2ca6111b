"""Inputs on which fewer steps of a reference give another answer."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from workers.protocol.input_variants import Variant
from workers.shims.problem.inputs import planned_inputs, reaching_inputs, telling_inputs
from workers.shims.problem.inputs.planned_inputs import Plan


def _exponential(x: torch.Tensor) -> torch.Tensor:
    total = term = torch.eye(x.shape[-1])
    for step in range(1, 16):
        term = term @ x / step
        total = total + term
    return total


def _leading(x: torch.Tensor) -> torch.Tensor:
    square, vector = x @ x.mT, torch.ones_like(x[..., :1])
    for _ in range(48):
        vector = torch.nn.functional.normalize(square @ vector, dim=-2)
    return vector.mT @ square @ vector


def _swept(x: torch.Tensor, sides: torch.Tensor) -> torch.Tensor:
    diagonal = x.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
    found = torch.zeros_like(sides)
    for _ in range(40):
        found = found + (sides - x @ found) / diagonal
    return found


def _remembered(x: torch.Tensor) -> torch.Tensor:
    states = [torch.zeros_like(x[0])]
    for step in range(len(x)):
        states.append(0.5 * states[-1] + x[step])
    return torch.stack(states)


def _system() -> list[torch.Tensor]:
    return [4 * torch.eye(16) + torch.rand(8, 16, 16) / 16, torch.randn(8, 16, 4)]


PROBLEMS: list[tuple[Callable[..., Any], Callable[[], list[torch.Tensor]], str]] = [
    (_exponential, lambda: [torch.randn(16, 16) / 80], "far"),
    (_leading, lambda: [torch.rand(2, 24, 24)], "close"),
    (_swept, _system, "coupled"),
]


@pytest.mark.parametrize(("model", "draw", "expected"), PROBLEMS)
def test_a_change_with_which_the_last_steps_tell_is_found(
    model: Callable[..., Any], draw: Callable[[], list[torch.Tensor]], expected: str
) -> None:
    torch.manual_seed(0)
    plan = reaching_inputs.plan(model, draw, torch.device("cpu"))
    assert Variant.TELLING in plan.all_kinds
    assert plan.telling[0].startswith(expected)
    inputs = draw()
    given = planned_inputs.applied(Variant.TELLING, Plan(telling=plan.telling[:1]), inputs)
    assert any(x is not y for x, y in zip(given, inputs, strict=True))


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (_remembered, [torch.randn(64, 3)]),  # a step is a row of the answer
        (functools.partial(_exponential), [torch.randn(8, 8) / 40]),  # its loops are not known
        (lambda x: x @ x, [torch.randn(8, 8)]),
    ],
)
def test_where_steps_cannot_be_left_out_nothing_is_changed(
    model: Callable[..., Any], inputs: list[torch.Tensor]
) -> None:
    assert telling_inputs.find(model, inputs) == ()


def test_loops_are_whole_again_afterwards() -> None:
    x = torch.randn(8, 8)
    whole = _exponential(x)
    with telling_inputs.fewer_steps(_exponential, 8):
        assert not torch.equal(_exponential(x), whole)
    assert torch.equal(_exponential(x), whole)
    assert "range" not in globals()


def test_some_matrices_of_a_batch_are_changed_or_all() -> None:
    torch.manual_seed(0)
    seen = set()
    for _ in range(40):
        x, sides = _system()
        given = telling_inputs.drawn(("coupled 8",), [x, sides])
        changed = [(a != b).flatten(1).any(1) for a, b in zip(given, (x, sides), strict=True)]
        assert torch.equal(*changed)
        seen.add(int(changed[0].sum()))
    assert {4, 8} < seen
    assert min(seen) < 4


def test_nothing_is_tried_without_a_loop_to_cut_short() -> None:
    calls = []

    def model(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        return torch.stack([row.cumsum(0) for row in x.split(1)])

    assert telling_inputs.find(model, [torch.randn(40, 8)]) == ()
    assert len(calls) == 2
