"""Factors that are scaled by any number before they are narrowed are recognised on inputs of two
magnitudes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from app.domain import evidence
from tests.unit.test_narrow_products import LOSS, SUM, lines, looked_at
from tests.unit.two_sides import here
from workers.referee.probes import narrow_products, scaled_factors
from workers.shims.problem.inputs.levelled_inputs import levelled

WEIGHT = "self.first.weight"
SCALES = {
    "a constant": ("1.1", "1.1"),
    "two constants": ("3.0", "0.7"),
    "the largest of each row": ("1 / x.abs().amax(1, True)", f"1 / {WEIGHT}.abs().amax(1, True)"),
    "the largest of each column": (
        "1 / x.abs().amax(0)",
        f"1 / {WEIGHT}.abs().amax(1, True)",
    ),
}


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(narrow_products, "CALLS", 8)  # more say no more of scaled factors
    with here():
        yield


def scaled(problem: str, of_x: str, of_weight: str) -> str:
    return lines(
        f"s, t = {of_x}, {of_weight}",
        f"x, w = (x * s).half().float() / s, ({WEIGHT} * t).half().float() / t",
        problem.replace("self.first(x)", "F.linear(x, w, self.first.bias)"),
    )


@pytest.mark.parametrize("problem", [SUM, LOSS], ids=["rows", "a scalar"])
@pytest.mark.parametrize("scales", SCALES)
def test_scaled_factors(tmp_path: Path, problem: str, scales: str) -> None:
    found = looked_at(tmp_path, problem, scaled(problem, *SCALES[scales]))
    assert found is not None
    assert (found.found, found.format) == (True, evidence.SCALED)
    assert found.share > scaled_factors.SHARE
    assert found.control_significance is not None
    assert found.own_share < 0.1


@pytest.mark.parametrize(
    "product",
    [
        "self.first(x)",
        "product(x, self.first.weight.T) + self.first.bias",
        f"F.linear(x.double(), {WEIGHT}.double(), self.first.bias.double()).float()",
        f"F.linear(x * 1.1, {WEIGHT} / 1.1, self.first.bias)",
        f"sum(a @ b.T for a, b in zip(x.chunk(16, 1), {WEIGHT}.chunk(16, 1))) + self.first.bias",
    ],
    ids=["the library's", "three products", "in fp64", "scaled alone", "in parts"],
)
@pytest.mark.parametrize("problem", [SUM, LOSS], ids=["rows", "a scalar"])
def test_full_factors(tmp_path: Path, problem: str, product: str) -> None:
    found = looked_at(tmp_path, problem, problem.replace("self.first(x)", product))
    assert found is not None
    assert not found.found


def test_an_error_in_proportion_to_products_is_alike_on_such_inputs(tmp_path: Path) -> None:
    rough = SUM.replace("self.first(x)", "self.first(x) * (1 + 1e-4)")
    found = looked_at(tmp_path, SUM, rough)
    assert found is not None
    assert not found.found


@pytest.mark.parametrize("draw", [torch.rand, torch.randn])
def test_levelled(draw: object) -> None:
    torch.manual_seed(0)
    x = draw(512, 1024)  # type: ignore[operator]
    one, other = levelled(x), levelled(x)
    values, counts = one.abs().unique(return_counts=True)
    lower, upper = values[counts.argsort()[-2:].flip(0)].tolist()
    assert counts.max() > 0.7 * x.numel()
    assert (one == upper).any(1).all() or (one.abs() == upper).any(1).all()
    assert one.abs().max() == upper
    assert torch.equal(one.sign(), x.sign())
    nearly = other.abs().unique(return_counts=True)
    there = float(nearly[0][nearly[1].argmax()])
    assert 0 < abs(there - lower) < 0.02 * lower


@pytest.mark.parametrize(
    "x",
    [
        torch.randint(0, 9, (64, 64)).float(),
        torch.eye(64),
        torch.rand(64, 64).softmax(1),
        torch.rand(64).sort().values,
        torch.ones(1),
    ],
    ids=["whole", "a mask", "shares", "sorted", "one"],
)
def test_inputs_with_a_structure_are_left_alone(x: torch.Tensor) -> None:
    assert levelled(x) is x
