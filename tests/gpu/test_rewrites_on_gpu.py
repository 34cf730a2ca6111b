"""Rewrites and downgrades by the libraries of a GPU: TF32 where PyTorch has it,
tensor cores, sums in any order.
"""

import pytest
import torch
from torch import nn

from tests.judged import is_right
from tests.rewrites import DOWNGRADES, REWRITES, Pair
from workers.protocol.roundoff import errors
from workers.shims.problem.answers import best_truth, rounding
from workers.shims.problem.answers.true_answer import Truth

pytestmark = pytest.mark.gpu

CALLS = 20


def _right(pair: Pair, seed: int) -> bool:
    torch.manual_seed(seed)
    inputs = [each.cuda() for each in pair.draw()]
    with torch.no_grad():
        return is_right(pair.reference, inputs, pair.candidate(*inputs))


@pytest.mark.parametrize("pair", REWRITES, ids=lambda pair: pair.name)
def test_another_way_to_compute_the_same_is_right_in_every_call(pair: Pair) -> None:
    assert not [seed for seed in range(CALLS) if not _right(pair, seed)]


TF32_HERE = {"half_convolution"}
"""The reference convolves in TF32, which rounds as fp16 does: there fp16 operands
are no downgrade.
"""


@pytest.mark.parametrize(
    "pair", [each for each in DOWNGRADES if each.name not in TF32_HERE], ids=lambda pair: pair.name
)
def test_less_precision_is_wrong_in_every_call(pair: Pair) -> None:
    assert not [seed for seed in range(5) if _right(pair, seed)]


class Casts(nn.Module):
    """A convolution in TF32 behind a cast."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(64, 64, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x.to(torch.float32))


def test_a_convolution_in_full_precision_is_right_where_the_reference_s_is_tf32_behind_a_cast() -> (
    None
):
    model, x = Casts().cuda(), torch.randn(8, 64, 32, 32, device="cuda")
    with torch.no_grad(), torch.backends.cudnn.flags(allow_tf32=False):
        exact = model(x)
    with torch.no_grad():
        own = model(x)
    assert best_truth.find(model, [x], own) is Truth.WIDENED
    assert errors(own, exact)[0] > 1e-5, "the reference's is TF32"
    assert is_right(model, [x], exact)
    assert is_right(model, [x], own)


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(128, 256, 3, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = (
            torch.zeros(3, len(x), 256, device=x.device),
            torch.zeros(3, len(x), 256, device=x.device),
        )
        return self.lstm(x, state)[0]


def test_an_lstm_whose_states_are_made_inside_has_a_truth() -> None:
    model, x = Lstm().cuda(), torch.randn(10, 64, 128, device="cuda")
    with torch.no_grad():
        own = model(x)
        with torch.backends.cudnn.flags(enabled=False):
            other = model(x)
    assert best_truth.find(model, [x], own) is Truth.WIDENED
    assert is_right(model, [x], other)


def test_a_transposed_convolution_that_adds_up_in_any_order_is_not_random() -> None:
    model, x = (
        nn.ConvTranspose2d(32, 64, 5, stride=2).cuda(),
        torch.randn(8, 32, 64, 64, device="cuda"),
    )
    with torch.no_grad():
        first, again = model(x), model(x)
    assert rounding.differs_by_rounding(first, again)
