"""Values that an operation of torch rounds to codes: rounding decides between two codes, and between no others."""

import time

import torch
from torch import nn

from workers.shims import equivalent_answers, true_answer
from workers.shims.true_answer import Truth

ROWS, COLUMNS = 8, 4000


class Quantised(nn.Module):
    """A row's values rounded to multiples of its scale."""

    def forward(self, x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
        return torch.fake_quantize_per_channel_affine(x, scale, zero, 0, -128, 127)


def _inputs() -> list[torch.Tensor]:
    """Some values lie half-way between two codes, up to a rounding."""
    torch.manual_seed(2)
    scale = torch.rand(ROWS) * 0.1 + 0.01
    x = torch.randn(ROWS, COLUMNS)
    halves = torch.randint(-10, 10, (ROWS, 50)) + 0.5
    x[:, :50] = halves * scale[:, None] * (1 + torch.randn(ROWS, 50) * 6e-8)
    return [x, scale, torch.zeros(ROWS, dtype=torch.int32)]


def _divided(x: torch.Tensor, scale: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    """The same by a division, where torch multiplies by a reciprocal."""
    return (x / scale[:, None]).round().clamp(-128, 127) * scale[:, None]


def test_codes_that_rounding_decides_are_right_and_other_codes_are_not() -> None:
    model, inputs = Quantised(), _inputs()
    best = true_answer.find(model, inputs, model(*inputs))
    assert best is Truth.SINGLE
    divided = _divided(*inputs)
    differs = (divided - model(*inputs)).abs() > 1e-6
    assert differs.any()
    wrong = divided.clone()
    wrong[0, 1000] += 2 * inputs[1][0]
    kept = wrong.clone()
    [leaf] = equivalent_answers.find_equivalent(
        true_answer.twin(model, best), best, inputs, [kept], time.process_time() + 60.0
    )
    assert leaf.close >= int(differs.sum())
    assert torch.equal(kept[differs], divided[differs])
    assert kept[0, 1000] != wrong[0, 1000]
