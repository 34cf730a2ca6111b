"""Answers that rounding decides, in every layout of an arena."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import workers
from tests.unit.two_sides import APART, STREAMED, TOGETHER, TwoSides, here
from workers.protocol import problem_spec
from workers.referee.session import memory_needs
from workers.referee.session.deadline import REFERENCE_TIMEOUT_S
from workers.shims.problem.answers import equivalent_answers

CODES = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, scale): return (x * (1.0 / scale)).clamp(-128, 127).to(torch.int8)
def get_inputs():
    x, scale = torch.randn(64, 256) * 50, torch.full((1,), 0.7)
    x[:, 0] = (torch.arange(64) / 2 + 0.5 - 1.2e-5) * scale  # half of them just below whole numbers
    return [x, scale]
"""
SHIFTED = CODES.replace("class Model(", "class ModelNew(").replace(
    "(1.0 / scale))", "(1.0 / scale) + 1000.0).sub(1000.0)"
)
ONE_LESS = CODES.replace("class Model(", "class ModelNew(").replace(
    ".to(torch.int8)", ".to(torch.int8) - (torch.arange(256) == 7).to(torch.int8)"
)


@pytest.fixture(autouse=True)
def _here() -> Iterator[None]:
    with here():
        yield


def _wrong_calls(folder: Path, source: str, slots: problem_spec.Slots) -> tuple[int, int]:
    """Numbers of wrong calls and of elements that rounding decided, of one call."""
    sides = TwoSides(folder, CODES, source, slots)
    sides.runner.try_calls(sides.runner.draw(1))
    found = sides.runner.record.correctness()
    decided = sum(check.close or 0 for trial in found.trials for check in trial.outputs)
    return found.failed_calls, decided


@pytest.mark.parametrize("slots", [TOGETHER, APART], ids=["together", "apart"])
def test_codes_that_rounding_decides_are_right_in_problems_of_every_size(
    tmp_path: Path, slots: problem_spec.Slots
) -> None:
    wrong, decided = _wrong_calls(tmp_path, SHIFTED, slots)
    assert not wrong
    assert decided > 0


@pytest.mark.parametrize("slots", [TOGETHER, APART, STREAMED], ids=["together", "apart", "stream"])
def test_other_codes_are_wrong(tmp_path: Path, slots: problem_spec.Slots) -> None:
    assert _wrong_calls(tmp_path, ONE_LESS, slots)[0] == 1


def test_memory_of_a_second_look_is_reserved_for_outputs_that_are_exact(tmp_path: Path) -> None:
    codes = TwoSides(tmp_path, CODES, SHIFTED).spec
    peaks = problem_spec.Peaks(call_bytes=1 << 10, truth_bytes=1 << 20)
    no_products = replace(codes.work, flops=0, rest_operators=0)
    codes = replace(codes, peaks=peaks, work=no_products)
    floats = replace(codes, outputs={**codes.outputs, "dtype": "float32"})

    def need(spec: problem_spec.ProblemSpec) -> int:
        return memory_needs.of_evaluation(spec, problem_spec.arena(spec, APART), 0, 0)

    held = need(codes) - need(replace(codes, piece_rows=8))
    assert held >= ((1 << 20) + 6 * codes.expected_bytes) // 2
    assert need(floats) == need(replace(floats, piece_rows=8))


def test_a_look_at_a_large_answer_or_large_inputs_takes_longer() -> None:
    small, large = [torch.zeros(1_000)], [torch.zeros(4_500_000)]
    few = equivalent_answers.look_s(small, [*small, 1.5])
    assert few == pytest.approx(equivalent_answers.LOOK_S, rel=0.01)
    assert equivalent_answers.look_s(large, small) > few + 5.4
    assert equivalent_answers.look_s(small, [large, None]) > few + 5.4, "the best of many"


def test_a_look_ends_before_its_request_does() -> None:
    """An answer of 82 million elements had 246 s, and a wrong one made the reference fail."""
    huge = torch.empty(1 << 31, device="meta")
    assert 5.4 < equivalent_answers.look_s([huge], [huge]) < REFERENCE_TIMEOUT_S / 2


def test_no_dispatch_mode_imports_torchs_compiler() -> None:
    """The first look of a fresh process spent half of its time on that, and on a busy host all."""
    folder = Path(workers.__file__).parent
    direct = [
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if "(TorchDispatchMode)" in path.read_text()
    ]
    assert direct == ["backends/support/dispatch_mode.py"]
