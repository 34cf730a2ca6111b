"""Work that a reference does on its weights alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from workers.shims.problem import constant_parameters
from workers.shims.problem.observers.flops import FlopCounter
from workers.shims.problem.observers.weight_work import WeightWork


class Spectral(nn.Module):
    """Weights over their norm, which some steps on them find."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(24, 24))
        self.bias = nn.Parameter(torch.randn(24))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left = torch.ones(24)
        for _ in range(20):
            left = self.matrix @ (self.matrix.T @ left)
            left /= left.norm()
        return x @ (self.matrix / left.norm()).T + self.bias


class ByInputs(Spectral):
    """The same steps from one of the inputs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left = torch.ones(24)
        left += x[0]
        for _ in range(20):
            left = self.matrix @ (self.matrix.T @ left)
        return x @ self.matrix.T + left


class Normed(Spectral):
    """A norm of the weights, a small part of the work."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x @ (self.matrix / self.matrix.norm()).T
        for _ in range(50):
            y = torch.tanh(y) + self.bias
        return y


def _frozen() -> nn.Module:
    return Spectral().requires_grad_(False)


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (Spectral, ("matrix",)),
        (ByInputs, ()),
        (Normed, ()),
        (_frozen, ()),
        (lambda: nn.Linear(24, 24), ()),
        (lambda: torch.tanh, ()),
    ],
)
def test_weights_are_named_that_much_work_needs_and_no_input(
    make: Callable[[], Callable[..., object]], names: tuple[str, ...]
) -> None:
    model, inputs = make(), [torch.randn(16, 24)]
    with torch.no_grad(), FlopCounter() as counter, WeightWork(model, inputs) as work:
        model(*inputs)
    assert work.names(counter.bytes) == names


def test_such_weights_are_among_those_that_a_probe_redraws() -> None:
    model = Spectral()
    uses = constant_parameters.Uses(on_weights=("matrix",))
    assert constant_parameters.of(model, (), uses) == ("matrix",)
    assert constant_parameters.of(model) == ()


class Averages(nn.Module):
    """A recurrence with learned rates, and a scale for each step's row."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.zeros(8))
        self.scales = nn.Parameter(torch.ones(40, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keep, state = torch.sigmoid(self.rate), torch.zeros_like(x[0])
        for row in x:
            state = keep * state + row
        return state * self.scales.sum()


def test_parameters_that_set_what_a_state_keeps_are_named() -> None:
    model, x = Averages(), torch.randn(40, 8)
    with torch.no_grad(), WeightWork(model, [x]) as weights:
        model(x)
    assert weights.decays() == ("rate",)
