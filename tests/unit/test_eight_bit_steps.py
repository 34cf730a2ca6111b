"""Casts to floats of one byte are steps of a reference: the truth is rounded there, too."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.judged import is_right
from workers.shims.problem.answers import best_truth, true_answer
from workers.shims.problem.answers.true_answer import Truth

E4M3 = torch.float8_e4m3fn

Rows = Callable[[torch.Tensor], torch.Tensor]


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Dequantised(nn.Module):
    """Rows rounded to e4m3 by a scale of their own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = x.abs().amax(1, keepdim=True).clamp(min=1e-12) / 448
        return (x / scale).to(E4M3).to(x.dtype) * scale


class Blocks(nn.Module):
    """Blocks of sixteen as four-bit floats with a scale in e4m3, and back."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _blocks(x)


class Buffered(nn.Module):
    """Codes in a buffer that the code makes itself."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        codes = torch.empty(x.shape, dtype=E4M3)
        codes.copy_(8 * x)
        return codes.float() / 8


class Codes(nn.Module):
    """The codes themselves, in another shape."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (8 * x).to(E4M3).view(-1)


def _blocks(x: torch.Tensor, middle: float = 2.5, scale_type: torch.dtype = E4M3) -> torch.Tensor:
    rows = x.reshape(-1, 16)
    scale = (rows.abs().amax(1, keepdim=True) / 6).to(scale_type).float().clamp(min=2**-9)
    levels = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    bounds = torch.tensor([0.25, 0.75, 1.25, 1.75, middle, 3.5, 5.0])
    codes = torch.bucketize((rows * (1 / scale)).abs(), bounds)
    return (rows.sign() * levels[codes] * scale).reshape(x.shape)


def _rows(x: torch.Tensor, largest: float = 448.0, code: torch.dtype = E4M3) -> torch.Tensor:
    scale = x.abs().amax(1, keepdim=True).clamp(min=1e-12) * (1 / largest)
    return (x * (1 / scale)).to(code).float() * scale


def test_the_truth_has_the_codes() -> None:
    model, x = Dequantised(), torch.randn(64, 128)
    assert best_truth.find(model, [x], model(x)) in (Truth.FP64, Truth.WIDENED)
    exact = true_answer.call(model, true_answer.widened([x]), Truth.WIDENED)
    assert float((exact - model(x)).abs().max()) < 1e-5


@pytest.mark.parametrize("model", [Dequantised(), Blocks(), Buffered()])
def test_other_roundings_of_the_same_steps_are_right(model: nn.Module) -> None:
    others: dict[type, Rows] = {
        Dequantised: _rows,
        Blocks: _blocks,
        Buffered: lambda x: (x * 8).to(E4M3).double().mul(0.125).float(),
    }
    for _ in range(3):
        x = torch.randn(256, 512)
        assert is_right(model, [x], others[type(model)](x))


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        (Dequantised(), lambda x: x),
        (Dequantised(), lambda x: x.bfloat16().float()),
        (Dequantised(), lambda x: _rows(x, largest=240.0)),
        (Dequantised(), lambda x: _rows(x, largest=57344.0, code=torch.float8_e5m2)),
        (Blocks(), lambda x: _blocks(x, middle=2.4)),
        (Blocks(), lambda x: _blocks(x, scale_type=torch.float32)),
        (Buffered(), lambda x: x),
    ],
    ids=["unrounded", "bf16", "another-scale", "e5m2", "threshold", "scale", "buffer"],
)
def test_other_steps_are_wrong(model: nn.Module, answer: Rows) -> None:
    x = torch.randn(256, 512)
    assert not is_right(model, [x], answer(x))


def test_codes_as_an_output_are_compared_with_unrounded_numbers() -> None:
    x = torch.randn(64, 128)
    exact = true_answer.call(Codes(), true_answer.widened([x]), Truth.WIDENED)
    assert torch.equal(exact, 8 * x.double().view(-1))
    assert is_right(Codes(), [x], (x * 8.000001).to(E4M3).view(-1))
    assert not is_right(Codes(), [x], (x * 8.5).to(E4M3).view(-1))
