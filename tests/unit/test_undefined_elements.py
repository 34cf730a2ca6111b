"""Elements of which rounding decides whether they are a number (undefined_elements.py)."""

import pytest
import torch
from torch import nn

from tests.judged import is_right


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Distances(nn.Module):
    """Distances of rows by their products: that of a row from itself is a root of rounding."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        squares = x.square().sum(1)
        return torch.sqrt(squares[:, None] + squares - 2 * x @ x.mT)


class Angles(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = nn.functional.normalize(x, dim=1)
        return torch.acos(rows @ rows.mT)


def _distances(x: torch.Tensor) -> torch.Tensor:
    squares = (x * x).sum(1)
    return torch.sqrt(torch.addmm(squares[:, None] + squares, x, x.mT, alpha=-2))


def _angles(x: torch.Tensor) -> torch.Tensor:
    lengths = x.square().sum(1).rsqrt()
    return torch.acos((x @ x.mT) * lengths[:, None] * lengths)


@pytest.mark.parametrize("seed", range(3))
def test_another_order_of_sums_may_give_nan_elsewhere(seed: int) -> None:
    torch.manual_seed(seed)
    x = torch.randn(128, 256)
    for model, other in ((Distances(), _distances(x)), (Angles(), _angles(x))):
        assert bool((other.isnan() != model(x).isnan()).any()), "else this tests nothing"
        assert is_right(model, [x], other)


def test_nan_where_all_agree_on_a_number_is_wrong() -> None:
    x = torch.randn(128, 256)
    for model in (Distances(), Angles()):
        wrong = model(x)
        wrong[3, 5:9] = torch.nan
        assert not is_right(model, [x], wrong)


def test_nan_without_any_of_the_reference_s_is_wrong() -> None:
    x = torch.rand(128, 256)
    wrong = x.sqrt()
    wrong[0, 0] = torch.nan
    assert not is_right(Root(), [x], wrong)


class Root(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sqrt()


def test_another_number_in_place_of_nan_is_wrong() -> None:
    x = torch.randn(128, 256)
    wrong = torch.where(torch.eye(128) == 1, 1.0, Angles()(x))
    assert not is_right(Angles(), [x], wrong)
