"""Terms of a reference's answer that a candidate leaves out because they are faint."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from app.domain.evidence import LEFT_OUT, NarrowProducts
from tests.unit.two_sides import TwoSides, here
from workers.protocol.input_variants import Variant
from workers.protocol.product_errors import OF_LEFT_OUT
from workers.referee.probes import narrow_products
from workers.shims.problem.answers import left_out_terms
from workers.shims.problem.answers.true_answer import NominalTypes
from workers.shims.problem.inputs import varied_inputs

SOURCE = """
import torch
from torch import nn
class {name}(nn.Module):
    def forward(self, x):
        {code}
def get_inputs(): return [torch.randn(90, 120)]
"""

ORDERED = "torch.tanh(x) + 3e-7 * torch.sort(x, 1).values"
TWO = "torch.tanh(x) + 3e-7 * torch.sort(x, 1).values + 4e-7 * torch.cumsum(x, 0)"
PENALISED = "x.square().mean() + 1e-6 * x.abs().sqrt().mean()"
LOST = "x.square().mean() + 2e-8 * x.diff(dim=0).abs().mean()"
IN_LINES = "torch.where(x > 0, x, x.exp() - 1) + 3e-7 * x.cumsum(1).sin()"


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(narrow_products, "SECONDS", 60.0)  # other tests are running
    monkeypatch.setattr(left_out_terms, "SEARCH_S", 60.0)
    with here():
        yield


def looked_at(
    folder: Path, problem: str, candidate: str, excused: list[str] | None = None
) -> NarrowProducts | None:
    sources = (
        SOURCE.format(name="Model", code=f"return {problem}"),
        SOURCE.format(name="ModelNew", code=f"return {candidate}"),
    )
    sides = TwoSides(folder, sources[0], sources[1])
    resources = SimpleNamespace(device_lock=SimpleNamespace(shared=nullcontext))
    context = SimpleNamespace(runner=sides.runner, resources=resources, spec=sides.spec)
    found = narrow_products.check(cast("Any", context))
    if excused is not None:
        excused += sides.runner.record.excused
    return found


@pytest.mark.parametrize(
    ("problem", "candidate"),
    [
        (ORDERED, "torch.tanh(x)"),
        (TWO, "torch.tanh(x) + 3e-7 * torch.sort(x, 1).values"),
        (PENALISED, "x.square().mean()"),
        (LOST, "x.square().mean()"),
    ],
)
def test_terms_that_are_left_out(tmp_path: Path, problem: str, candidate: str) -> None:
    found = looked_at(tmp_path, problem, candidate)
    assert found is not None
    assert (found.found, found.format) == (True, LEFT_OUT)


@pytest.mark.parametrize(
    ("problem", "candidate"),
    [
        (ORDERED, "torch.tanh(x).add(x.t().msort().t(), alpha=3e-7)"),
        (IN_LINES, "torch.nn.functional.elu(x) + 3e-7 * torch.sin(x.double().cumsum(1).float())"),
        (PENALISED, "x.norm() ** 2 / x.numel() + 1e-6 * x.abs().pow(0.5).mean()"),
        (LOST, "(x.flatten() @ x.flatten()) / x.numel() + 2e-8 * (x[1:] - x[:-1]).abs().mean()"),
    ],
)
def test_terms_that_are_computed_otherwise(tmp_path: Path, problem: str, candidate: str) -> None:
    found = looked_at(tmp_path, problem, candidate)
    assert found is None or not found.found


@pytest.mark.parametrize(
    "problem",
    [
        "x / (x.norm(dim=1, keepdim=True) + 1e-8)",
        "[torch.sort(x, 1).values, x.relu()][1]",
    ],
)
def test_references_without_faint_terms(tmp_path: Path, problem: str) -> None:
    assert looked_at(tmp_path, problem, problem) is None


def test_no_more_calls_are_made_than_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()
    predicted = narrow_products._predicted

    def counted(context: Any, delivery: Any, wanted: int, control: int = 0) -> Any:
        asked.append(wanted)
        return predicted(context, delivery, wanted, control)

    monkeypatch.setattr(narrow_products, "_predicted", counted)
    right, wrong = "torch.tanh(x).add(x.sort(1).values, alpha=3e-7)", "torch.tanh(x)"
    for folder, candidate, most in (("right", right, 6), ("wrong", wrong, 14)):
        (tmp_path / folder).mkdir()
        asked.clear()
        looked_at(tmp_path / folder, ORDERED, candidate)
        assert 3 <= asked.count(OF_LEFT_OUT) <= most


def test_a_reference_that_takes_long_is_asked_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(narrow_products, "FURTHER_S", 0.0)
    excused = list[str]()
    found = looked_at(tmp_path, ORDERED, ORDERED, excused)
    assert found is not None
    assert not found.found
    assert excused.count(narrow_products.OUT_OF_TIME) == 1


def test_operators_that_matter_are_not_faint() -> None:
    asked = []

    def answer(chosen: Collection[int]) -> list[torch.Tensor]:
        [number] = chosen
        asked.append(number)
        if number == 3:
            raise ValueError("a matrix of zeros has no factor")
        return [torch.tensor(float(number))]

    work = [100, 4, 5, 90, 0]
    found = left_out_terms.faint(answer, work, lambda answer: float(answer[0]) > 0)
    assert (asked, found) == ([0, 3, 2], {2})


def test_results_of_operators_are_replaced() -> None:
    x = torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64)
    with NominalTypes(), left_out_terms.LeavingOut((), lambda each, _: each) as mode:
        x.neg() + torch.sort(x).values
    assert len(mode.work) == 3
    numbers = [at for at, each in enumerate(mode.work) if each]
    with NominalTypes(), left_out_terms.LeavingOut({numbers[1]}, lambda each, _: 0 * each):
        assert torch.equal(x.neg() + torch.sort(x).values, -x)


def test_all_inputs_are_smaller_by_the_same_power_of_two() -> None:
    torch.manual_seed(7)
    given = [torch.randn(8, 9), torch.ones(4), torch.randn(5)]
    made = varied_inputs.applied(Variant.SMALLER, given)
    factors = [float(x.abs().max() / y.abs().max()) for x, y in zip(given, made, strict=True)]
    assert factors[1] == 1
    assert factors[0] == factors[2]
    assert 2**8 <= factors[0] <= 2**24
