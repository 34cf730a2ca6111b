"""Rows of a mask that hide everything or nothing: users pad batches."""

from typing import Any

import pytest
import torch
from torch import nn

from workers.protocol.input_variants import Variant
from workers.shims.problem.inputs import input_changes, planned_inputs, reaching_inputs

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Pooled(nn.Module):
    """A mean over those that a mask leaves."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        shares = mask.float()
        return (x * shares[..., None]).sum(1) / shares.sum(1, keepdim=True).clamp(min=1)


class Hidden(nn.Module):
    """A softmax, which is NaN where nothing is left."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.masked_fill(~mask, -torch.inf), -1)


def _mask(*shape: int) -> torch.Tensor:
    return torch.rand(shape) < 0.5


@pytest.mark.parametrize(
    ("model", "draw", "is_emptied"),
    [
        (Pooled(), lambda: [torch.randn(8, 16, 4), _mask(8, 16)], True),
        (Pooled(), lambda: [torch.randn(8, 16, 4), _mask(8, 16).long()], True),
        (Hidden(), lambda: [torch.randn(8, 16, 32), _mask(8, 16, 32)], False),
    ],
    ids=["truth-values", "integers", "softmax"],
)
def test_masks_are_emptied_where_the_reference_has_an_answer(
    model: nn.Module, draw: Any, is_emptied: bool
) -> None:
    plan = reaching_inputs.plan(model, draw, CPU)
    assert (1 in plan.emptied) == is_emptied
    if is_emptied:
        _, mask = planned_inputs.applied(Variant.EMPTIED, plan, draw())
        assert bool(mask.bool().all(dim=1).any())
        assert bool((mask == 0).all(dim=1).any())


@pytest.mark.parametrize("mask", [_mask(64, 40), _mask(6, 8, 40), _mask(40, 64).mT])
def test_most_rows_of_a_mask_stay_and_so_do_strides(mask: torch.Tensor) -> None:
    changed = input_changes.emptied(mask)
    assert changed.stride() == mask.stride()
    assert 0.5 < float((changed == mask).all(dim=-1).float().mean()) < 1


def _causal(size: int) -> torch.Tensor:
    return torch.ones(3, size, size, dtype=torch.bool).tril()


def _with_first_key(*shape: int) -> torch.Tensor:
    return _mask(*shape) | (torch.arange(shape[-1]) == 0)


@pytest.mark.parametrize(
    ("mask", "keeps"),
    [
        (_causal(40), True),
        (_causal(40).long(), True),
        (_with_first_key(2, 40, 60), True),
        (_with_first_key(2, 6), False),  # by chance
        (torch.arange(48) < torch.randint(1, 49, (64, 1)), False),  # by chance: 0 may be a length
        (torch.ones(40, 40, dtype=torch.bool), False),
        (_mask(3, 40, 40), False),
    ],
    ids=["causal", "integers", "first key", "few rows", "lengths", "all", "random"],
)
def test_empty_rows_show_what_a_mask_never_hides(mask: torch.Tensor, keeps: bool) -> None:
    changed = input_changes.emptied(mask)
    assert not torch.equal(changed, mask)
    assert bool(changed.any(dim=-1).all()) is keeps


@pytest.mark.parametrize(
    "x", [torch.randn(4, 4), torch.randint(0, 9, (8, 4)), torch.rand(9) < 0.5, torch.rand(1, 9) < 2]
)
def test_others_are_no_masks(x: torch.Tensor) -> None:
    assert not input_changes.is_mask(x)
