"""Counts of which rounding decides a few (decided_counts.py)."""

import pytest
import torch
from torch import nn

from tests.judged import is_right

ROWS, EXPERTS = 4096, 12


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Counts(nn.Module):
    """Tokens that each expert receives."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = torch.topk(torch.sigmoid(x), 3).indices
        return torch.bincount(chosen.flatten(), minlength=EXPERTS)


class Offsets(Counts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).cumsum(0)


class Places(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x).argmax(1)


def _with_near_ties() -> torch.Tensor:
    """Scores of which, in a few rows, the third and the fourth differ by a rounding."""
    x = torch.randn(ROWS, EXPERTS)
    third, fourth = x[:6].topk(4).indices[:, 2:].unbind(1)
    rows = torch.arange(6)
    x[rows, fourth] = x[rows, third].nextafter(torch.tensor(-10.0))
    return x


@pytest.mark.parametrize(
    ("model", "seed"), [(Counts(), 3), (Counts(), 8), (Offsets(), 4), (Offsets(), 8)]
)
def test_a_token_may_go_to_the_other_of_two_nearly_equal_experts(
    model: nn.Module, seed: int
) -> None:
    torch.manual_seed(seed)
    x = _with_near_ties()
    other = model(x * (1 + 2e-7 * torch.randn_like(x)))
    assert int((other != model(x)).sum()) > 1, "else this tests nothing"
    assert is_right(model, [x], other)


@pytest.mark.parametrize("model", [Counts(), Offsets()])
def test_a_token_left_out_is_wrong(model: nn.Module) -> None:
    x = torch.randn(ROWS, EXPERTS)
    assert not is_right(model, [x], model(x[:-1]))


def test_many_tokens_elsewhere_are_wrong() -> None:
    x = torch.randn(ROWS, EXPERTS)
    wrong = Counts()(x)
    wrong[0], wrong[1] = wrong[0] + 2, wrong[1] - 2
    assert not is_right(Counts(), [x], wrong)


def test_a_place_between_two_right_ones_is_wrong() -> None:
    x = torch.randn(64, 8000)
    x[:, 5000] = 9
    x[0, 5100] = torch.tensor(9.0).nextafter(torch.tensor(0.0))
    wrong = Places()(x)
    wrong[0] = 5050
    assert not is_right(Places(), [x], wrong)
