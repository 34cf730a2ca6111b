"""Rows and patches of inputs in the order of a layer's weights."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from workers.protocol.input_variants import Variant
from workers.shims.problem.inputs import aligned_inputs, planned_inputs, reaching_inputs
from workers.shims.problem.inputs.planned_inputs import Plan


def _plan(model: nn.Module, draw: Callable[[], Any]) -> Plan:
    torch.manual_seed(0)
    return reaching_inputs.plan(model, lambda: [draw()], torch.device("cpu"))


def test_a_row_keeps_its_elements_and_gives_one_large_result() -> None:
    torch.manual_seed(0)
    x, weight = torch.rand(64, 256), torch.randn(32, 256)
    changed = aligned_inputs.aligned(x, [weight])
    assert torch.equal(changed.sort(dim=1).values, x.sort(dim=1).values)
    rows = (changed != x).any(dim=1)
    assert 0 < int(rows.sum()) < 32
    results = (changed @ weight.T)[rows]
    far = (results - results.mean(1, keepdim=True)).abs().amax(1) / (x @ weight.T).std()
    assert float(far.min()) > 256**0.5 / 4


def test_a_patch_gives_one_large_result_of_a_convolution() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(4, 8, 20, 20), torch.randn(6, 8, 3, 3)
    changed = aligned_inputs.aligned(x.mT, [weight])
    assert changed.stride() == x.mT.stride()
    assert 0 < int((changed != x.mT).sum()) <= 4 * 8 * 9
    results = torch.conv2d(changed, weight).abs().flatten(1).amax(1)
    assert float(results.min()) > 1.5 * float(torch.conv2d(x.mT, weight).abs().amax())


class _Clamped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(256, 256), nn.GroupNorm(2, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.clamp(self.norm(self.layer(x)), -6.0, 6.0)


class _Chosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(64, 8)
        with torch.no_grad():
            self.gate.bias[6:] = -4.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.topk(self.gate(x), 2).indices


class _Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x))


def test_a_limit_behind_a_norm_is_reached() -> None:
    model = _Clamped()
    plan = _plan(model, lambda: torch.rand(64, 256))
    assert plan.aligned == ((0, ("layer.weight",)),)
    (x,) = planned_inputs.applied(Variant.ALIGNED, plan, [torch.rand(64, 256)], model)
    answer = model(x).detach()
    assert float(answer.amin()) == -6
    assert float(answer.amax()) == 6


def test_experts_that_are_never_chosen_are() -> None:
    model = _Chosen()
    plan = _plan(model, lambda: torch.randn(2048, 64))
    assert 7 not in model(torch.randn(2048, 64))
    (x,) = planned_inputs.applied(Variant.ALIGNED, plan, [torch.randn(2048, 64)], model)
    assert {6, 7} <= set(model(x).flatten().tolist())


@pytest.mark.parametrize(
    ("model", "draw"),
    [
        (_Plain(), lambda: torch.randn(64, 64)),  # no limit is missed
        (nn.Softmax(dim=-1), lambda: torch.randn(64, 64)),  # no weights
    ],
)
def test_other_rows_keep_their_order(model: nn.Module, draw: Callable[[], Any]) -> None:
    assert _plan(model, draw).aligned == ()
