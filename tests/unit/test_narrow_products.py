"""Products in 16 bits or TF32 are recognised by their errors, where a sum or a mean hides these
from the comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from app.domain.evidence import NarrowProducts
from tests.unit.two_sides import APART, STREAMED, TOGETHER, TwoSides, here
from workers.protocol import problem_spec, product_errors
from workers.protocol.layout import UnsupportedError
from workers.protocol.product_errors import BRAIN, CUT, HALF, LEFT_OUT, PREDICTIONS, Sums
from workers.referee import candidate_stages
from workers.referee.probes import narrow_products as probe
from workers.referee.session import memory_needs
from workers.referee.session.stage_timer import Stages
from workers.shims.problem.answers import narrow_products, narrowed_values, pieces

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
"""
REST = """
class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(256, 400), nn.Linear(400, 100)
    def forward(self, x):
        {code}
def get_inputs(): return [torch.rand({rows}, 256)]
"""
CUTS = """
def cut(x): return (x.contiguous().view(torch.int32) & (-1 << 13)).view(torch.float32)
def product(a, b):
    high = cut(a), cut(b)
    return high[0] @ high[1] + ((a - high[0]) @ high[1] + high[0] @ (b - high[1]))
"""

SUM = "return torch.sigmoid(self.first(x)).sum(1, keepdim=True)"
LAYERS = "return torch.logsumexp(self.second(torch.sigmoid(self.first(x))), 1)"
LOSS = "return torch.logsumexp(self.first(x), 1).mean()"


def lines(*each: str) -> str:
    return "\n        ".join(each)


IN_FULL = {
    "another order": (
        SUM,
        lines(
            "y = sum(a @ b.T for a, b in zip(x.chunk(8, 1), self.first.weight.chunk(8, 1)))",
            "return torch.sigmoid(y + self.first.bias).sum(1, keepdim=True)",
        ),
    ),
    "three products of parts": (
        SUM,
        lines(
            "y = product(x, self.first.weight.T) + self.first.bias",
            "return torch.sigmoid(y).sum(1, keepdim=True)",
        ),
    ),
    "another formula": (
        SUM,
        "return (self.first(x).mul(0.5).tanh() * 0.5 + 0.5).sum(1, keepdim=True)",
    ),
    "in fp64": (LAYERS, lines("self.double()", "x = x.double()", f"{LAYERS}.float()")),
    "a scalar": (LOSS, lines("y = self.first(x)", "return y.exp().sum(1).log().mean()")),
}
HALVED = "F.linear(x.half(), self.first.weight.half(), self.first.bias.half()).float()"
NARROW = {
    "library in half": (SUM, f"return torch.sigmoid({HALVED}).sum(1, keepdim=True)"),
    "weights in half": (
        SUM,
        lines(
            "y = F.linear(x, self.first.weight.half().float(), self.first.bias)",
            "return torch.sigmoid(y).sum(1, keepdim=True)",
        ),
    ),
    "one layer of two": (
        LAYERS,
        f"return torch.logsumexp(self.second(torch.sigmoid({HALVED})), 1)",
    ),
    "a scalar": (LOSS, f"return torch.logsumexp({HALVED}, 1).mean()"),
}
BRAIN_SUM = "return 1 + 0.02 * torch.sigmoid(self.first(x)).mean(1, keepdim=True)"
IN_BRAIN = lines(
    "y = F.linear(x.bfloat16().float(), self.first.weight.bfloat16().float(), self.first.bias)",
    "return 1 + 0.02 * torch.sigmoid(y).mean(1, keepdim=True)",
)
EXACT = lines(
    "w = self.first.weight.half().float()",
    "y = F.linear(x.half().float(), w, self.first.bias)",
    "return torch.sigmoid(y).sum(1, keepdim=True)",
)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(probe, "SECONDS", 60.0)  # other tests are running
    with here():
        yield


def source(code: str, name: str = "ModelNew", before: str = CUTS, rows: int = 200) -> str:
    return HEAD + before + REST.format(name=name, code=code, rows=rows)


def looked_at(
    folder: Path,
    problem: str,
    candidate: str,
    slots: problem_spec.Slots = TOGETHER,
    rows: int = 200,
    before: str = CUTS,
) -> NarrowProducts | None:
    sides = TwoSides(
        folder, source(problem, "Model", before, rows), source(candidate, rows=rows), slots
    )
    resources = SimpleNamespace(device_lock=SimpleNamespace(shared=nullcontext))
    context = SimpleNamespace(runner=sides.runner, resources=resources, spec=sides.spec)
    found = probe.check(cast("Any", context))
    assert not sides.runner.failed
    return found


@pytest.mark.parametrize("kind", IN_FULL)
def test_answers_in_single_precision_hold_none_of_the_errors(tmp_path: Path, kind: str) -> None:
    found = looked_at(tmp_path, *IN_FULL[kind])
    assert found is not None
    assert not found.found
    assert found.significance < probe.SIGNIFICANT


@pytest.mark.parametrize("kind", NARROW)
def test_answers_of_narrow_products_do(tmp_path: Path, kind: str) -> None:
    found = looked_at(tmp_path, *NARROW[kind])
    assert found is not None
    assert found.found
    assert found.format == HALF.name
    assert found.share > probe.SHARE
    assert found.control_significance is not None
    assert found.significance > 3 * found.control_significance


@pytest.mark.parametrize("way", ["result", "alpha"])
@pytest.mark.parametrize("is_left_out", [True, False])
def test_products_of_which_an_answer_has_a_faint_part(
    tmp_path: Path, way: str, *, is_left_out: bool
) -> None:
    part = "torch.sigmoid(x) + 6e-6 * (x @ self.first.weight[:256])"
    if way == "alpha":
        part = "torch.sigmoid(x).add(x @ self.first.weight[:256], alpha=6e-6)"
    problem = f"return {part}"
    found = looked_at(tmp_path, problem, "return torch.sigmoid(x)" if is_left_out else problem)
    assert found is not None
    assert found.found == is_left_out
    assert not is_left_out or (found.format, round(found.share, 2)) == (LEFT_OUT.name, 1.0)


@pytest.mark.parametrize("is_left_out", [True, False])
def test_a_faint_part_of_which_the_reference_rounds_a_good_part_away(
    tmp_path: Path, *, is_left_out: bool
) -> None:
    rest = "torch.sigmoid(x)"
    problem = lines(
        "x, w = x.bfloat16(), self.first.weight[:256].bfloat16()", f"return {rest} + 4e-3 * (x @ w)"
    )
    candidate = f"return {rest}.bfloat16()" if is_left_out else problem
    found = looked_at(tmp_path, problem, candidate)
    assert found is not None
    assert found.found == is_left_out


def test_the_largest_product_alone_beside_a_smaller_one_that_errs_more(tmp_path: Path) -> None:
    problem = lines(
        "y = self.first(x).sigmoid().mean(1, keepdim=True)",
        "z = (x[:, :100] @ self.second.weight[:, :100].T).sigmoid().mean(1, keepdim=True)",
        "return y * 0.1 + z",
    )
    narrow = "F.linear(x.half().float(), self.first.weight.half().float(), self.first.bias)"
    found = looked_at(tmp_path, problem, problem.replace("self.first(x)", narrow), rows=2000)
    assert found is not None
    assert (found.found, found.parts) == (True, "largest")


def test_eight_bits_less(tmp_path: Path) -> None:
    found = looked_at(tmp_path, BRAIN_SUM, IN_BRAIN)
    assert found is not None
    assert found.found
    assert found.format == BRAIN.name


@pytest.mark.parametrize(("slots", "is_known"), [(APART, True), (STREAMED, False)])
def test_other_layouts_of_memory(
    tmp_path: Path, slots: problem_spec.Slots, *, is_known: bool
) -> None:
    found = looked_at(tmp_path, *NARROW["library in half"], slots)
    assert (found is not None and found.found) == is_known


@pytest.mark.parametrize("slots", [APART, STREAMED])
def test_a_piece_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slots: problem_spec.Slots
) -> None:
    monkeypatch.setattr(pieces, "FROM_BYTES", 1 << 10)
    monkeypatch.setattr(pieces, "PIECE_BYTES", 64 << 10)
    found = looked_at(tmp_path, *NARROW["library in half"], slots)
    assert found is not None
    assert found.found
    assert found.elements < 200


def test_products_whose_errors_show_are_not_looked_at(tmp_path: Path) -> None:
    assert looked_at(tmp_path, "return self.first(x)", "return self.first(x)") is None


def test_only_the_hidden_product_is_looked_at(tmp_path: Path) -> None:
    problem = lines(
        "y = torch.sigmoid(self.first(x)).mean(1, keepdim=True)",
        "return self.second(y * self.first.bias)",
    )
    found = looked_at(tmp_path, problem, problem.replace("self.first(x)", HALVED))
    assert found is not None
    assert found.found


@pytest.mark.parametrize(
    "before",
    [
        "torch.backends.cuda.matmul.allow_tf32 = True\n",
        "torch.set_float32_matmul_precision('high')\n",
    ],
)
def test_problems_that_allow_tf32(tmp_path: Path, before: str) -> None:
    try:
        assert looked_at(tmp_path, *NARROW["library in half"], before=before + CUTS) is None
    finally:
        # "highest" alone would leave "ieee", which is not the setting PyTorch begins with.
        torch.set_float32_matmul_precision("highest")
        torch.backends.cuda.matmul.fp32_precision = "none"


@pytest.mark.parametrize("way", ["half", "autocast"])
def test_references_with_such_products(tmp_path: Path, way: str) -> None:
    problem = NARROW["library in half"][1]
    if way == "autocast":
        problem = lines(
            "with torch.autocast('cpu', torch.bfloat16): y = self.first(x)",
            BRAIN_SUM.replace("self.first(x)", "y.float()"),
        )
    found = looked_at(tmp_path, problem, problem)
    assert found is None or not found.found


def test_factors_that_are_exact_say_nothing(tmp_path: Path) -> None:
    found = looked_at(
        tmp_path,
        EXACT.replace(".half().float()", ".bfloat16().float()"),
        EXACT.replace(".half()", ".bfloat16().half()"),
    )
    assert found is None or not found.found


def test_formats() -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0)).double()
    half, other = narrowed_values.neighbours(x, HALF)
    assert torch.equal(half, x.half().double())
    assert torch.allclose((other - x).abs(), (half - x).abs())
    assert torch.equal(narrowed_values.neighbours(x, BRAIN)[0], x.bfloat16().double())
    cut, other = narrowed_values.neighbours(x, CUT)
    assert ((cut - x) * x.sign() <= 0).all()
    # Errors of either kind add up to the distance of two such numbers.
    step = torch.ldexp(torch.ones_like(x), torch.frexp(x).exponent - 11)
    assert torch.allclose((cut - x).abs() + (other - x).abs(), step)


def test_sums_of_another_form() -> None:
    row = [1.0] * len(Sums._fields)
    assert len(product_errors.checked([[0, [row] * len(PREDICTIONS)]])[0]) == len(PREDICTIONS)
    for wrong in ([[0, [row]]], [[0, [[float("nan"), *row[1:]]] * len(PREDICTIONS)]]):
        with pytest.raises(UnsupportedError):
            product_errors.checked(wrong)


def test_errors_below_rounding_are_no_loss(tmp_path: Path) -> None:
    problem = "return x + 1e-6 * self.first.weight.sum(1)[:256] * self.second(self.first(x))[:, :1]"
    narrow = problem.replace("self.first(x)", f"{HALVED}")
    found = looked_at(tmp_path, problem, narrow, rows=1000)
    assert found is not None
    assert not found.found
    sums = Sums(
        elements=1e6, error_squares=1, own_squares=1, predicted_squares=0.1, error_predicted=0.05
    )
    assert not probe._is_found(sums)
    assert probe._is_found(sums._replace(own_squares=0.2))


def test_sums_that_overflow_say_nothing() -> None:
    huge, zeros = torch.full((4,), 1e200, dtype=torch.float64), torch.zeros(4).double()
    assert narrow_products._summed(huge, zeros, zeros) == Sums()
    mixed = torch.tensor([1.0, float("nan"), float("inf"), 2.0]).double()
    found = narrow_products._summed(mixed, zeros, zeros)
    assert (found.elements, found.error) == (2, 3)


def test_a_share_of_few_elements_or_of_the_reference_is_none() -> None:
    sums = Sums(
        elements=100, error_squares=1, own_squares=1, predicted_squares=1, error_predicted=0.9
    )
    assert probe._is_found(sums)
    assert not probe._is_found(sums._replace(own_predicted=0.9))
    assert not probe._is_found(sums._replace(elements=9))
    assert not probe._is_found(sums._replace(error_squares=100.0))
    assert not probe._is_found(sums._replace(error=10.0, predicted=9.5))


def test_memory_that_was_taken_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back: list[object] = []
    monkeypatch.setattr(probe, "give_back", lambda reference, _: given_back.append(reference))
    looked_at(tmp_path, *NARROW["weights in half"])
    assert not given_back
    monkeypatch.setattr(probe, "LARGE_BYTES", 1 << 10)
    (tmp_path / "again").mkdir()
    looked_at(tmp_path / "again", *NARROW["weights in half"])
    assert given_back


def test_a_problem_without_such_products_is_answered_at_once(tmp_path: Path) -> None:
    sides = TwoSides(tmp_path, source(SUM, "Model"), source(SUM))
    session = SimpleNamespace(spec=sides.spec)  # nothing is computed
    none = narrow_products.NONE
    assert narrow_products.sums(cast("Any", session), 0, 0, 1, none) == ([], none)


def test_few_predictions_are_made_where_each_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    answer = narrow_products._Question.answer

    def counted(*arguments: Any) -> Any:
        asked[-1] += 1
        return answer(*arguments)

    monkeypatch.setattr(narrow_products._Question, "answer", counted)
    for name, slow_s in (("quick", narrow_products.SLOW_S), ("slow", 0.0)):
        asked.append(0)
        (tmp_path / name).mkdir()
        monkeypatch.setattr(narrow_products, "SLOW_S", slow_s)
        found = looked_at(tmp_path / name, *NARROW["library in half"])
        assert found is not None
        assert found.found
    assert asked[1] < asked[0]


@pytest.mark.parametrize(
    ("speedup", "low", "interprets", "is_asked"),
    [
        (1.2, 0.9, False, True),
        (1.02, 1.01, False, True),
        (1.02, 0.98, False, False),
        (0.1, 0.1, True, True),
        (None, None, False, True),
    ],
)
def test_only_who_gains_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
    *,
    speedup: float | None,
    low: float | None,
    interprets: bool,
    is_asked: bool,
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(memory_needs, "may_ask_of_products", lambda _: True)
    monkeypatch.setattr(probe, "check", asked.append)
    monkeypatch.setattr(candidate_stages, "_require_correct", lambda _: None)
    timing = None if speedup is None else SimpleNamespace(speedup=speedup, ci_low=low)
    device = SimpleNamespace(precompiles=interprets)
    context = SimpleNamespace(resources=SimpleNamespace(device=device), spec=None)
    progress = SimpleNamespace(
        timing=timing, cancellation=SimpleNamespace(requested=False), stages=Stages()
    )
    candidate_stages._compare_products(cast("Any", context), cast("Any", progress))
    assert bool(asked) == is_asked
