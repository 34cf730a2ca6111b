"""Weights that follow from fewer numbers until a model is trained."""

from __future__ import annotations

import pytest
import torch

from workers.protocol import moved_weights
from workers.shims.problem import regular_weights

torch.manual_seed(0)
SQUARE = torch.randn(80, 80)
PRUNED = torch.where(torch.rand(80, 80) > 0.5, SQUARE, 0.0)


@pytest.mark.parametrize(
    ("weight", "is_regular"),
    [
        (torch.linspace(-2, 2, 16), True),
        (torch.tensor([2.0 ** -(i + 1) for i in range(8)]), True),
        (-torch.arange(1, 9).float(), True),
        (torch.log(torch.arange(1, 17).float()), True),
        (torch.linspace(-2, 2, 16).half(), False),  # its steps are far from equal
        (torch.stack([torch.linspace(-i, i, 8) for i in range(1, 4)]), True),
        (SQUARE + SQUARE.T, True),
        (torch.tril(SQUARE), True),
        (torch.block_diag(*[torch.randn(20, 20)] * 4), True),
        (torch.block_diag(*[torch.randn(100, 80)] * 2), True),
        (torch.randn(159)[torch.arange(80)[:, None] - torch.arange(80) + 79], True),
        (SQUARE, False),
        (SQUARE[0], False),
        (SQUARE[0].sort().values, False),
        (PRUNED, False),
        (torch.cat((torch.zeros(1, 80), SQUARE)), False),  # the row of padding
        (torch.linspace(-1, 1, 3), False),
        (torch.tensor(2.0), False),
    ],
)
def test_regular_weights(weight: torch.Tensor, is_regular: bool) -> None:
    assert regular_weights.is_regular(weight) is is_regular


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("factor", moved_weights.FACTORS)
def test_sorted_weights_stay_sorted(factor: float, descending: bool) -> None:
    edges = torch.linspace(-3, 3, 63)
    given = edges.flip(0) if descending else edges
    other = moved_weights.moved(given, factor, torch.Generator().manual_seed(0))
    moved = moved_weights.in_order(given, other)
    assert bool(((moved.diff() > 0) ^ descending).all())
    assert not torch.allclose(moved, given)


def test_a_negative_factor_gives_half_of_the_weights_the_other_sign() -> None:
    given = 1 + torch.rand(20)
    moved = moved_weights.moved(given, -4.0, torch.Generator().manual_seed(0))
    assert int((moved < 0).sum()) == 10
    assert float(moved.abs().mean()) > 2
