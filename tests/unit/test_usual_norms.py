"""Errors of outputs of few elements, relative to the norm that these usually have: the sum of
millions of values is near zero in some calls, and its rounding errors are not.
"""

from pathlib import Path

import pytest
import torch

from workers.protocol.problem_spec import FEW_ELEMENTS
from workers.referee.comparison.correctness import Rule, compare
from workers.shims.problem import model_checks
from workers.shims.problem.reference_problem import Problem

USUAL = 4096.0
ERROR = 2e-6 * USUAL
"""Error of a sum by 20,000 atomic additions in fp32 (H200)."""

SUM = b"""
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum(), x * 2, (x > 0).sum()

def get_inputs():
    return [torch.randn(4096)]

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("error", "rule", "ok"),
    [
        (ERROR, Rule(usual_norms=(USUAL,)), True),
        (ERROR, Rule(), False),
        (-20 * ERROR, Rule(usual_norms=(USUAL,)), False),
    ],
)
def test_an_answer_that_cancels_is_judged_by_its_usual_size(
    error: float, rule: Rule, *, ok: bool
) -> None:
    expected = torch.tensor([[12.5]], dtype=torch.float64)
    got, baseline = (expected + error).float(), expected.float()
    found = compare(got, expected, baseline, torch.zeros(1), 0, (1,), rule)
    assert found.ok == [ok]


def test_the_usual_norm_is_that_of_most_draws() -> None:
    drawn = iter([1.0, -1e9, 3.0, 0.0, 3.0, -2.0, 3.0, 2.5])

    def answer() -> list[torch.Tensor]:
        return [
            torch.tensor([next(drawn)]),
            torch.ones(FEW_ELEMENTS),
            torch.ones(2, dtype=torch.int64),
        ]

    assert model_checks.usual_norms(answer(), answer) == (3.0, 0.0, 0.0)


def test_a_problem_without_small_outputs_is_not_drawn_again() -> None:
    many = [torch.ones(FEW_ELEMENTS), torch.tensor([7])]
    assert model_checks.usual_norms(many, lambda: pytest.fail("drawn again")) == (0.0, 0.0)


def test_the_spec_has_the_usual_norms(tmp_path: Path) -> None:
    problem = Problem(tmp_path, torch.device("cpu"))
    problem.load(SUM, "Model", by_cases=False)
    sum_, *others = problem.session(0, bytes(32), sole=True).spec.usual_norms
    assert 30 < sum_ < 300  # 64 on average
    assert others == [0.0, 0.0]


@pytest.mark.parametrize(
    ("answers", "constant"), [([3, 3, 5], False), ([3, 3, 3, 3, 3], True), ([3, 4], False)]
)
def test_few_elements_that_are_equal_in_two_draws_are_drawn_again(
    answers: list[int], *, constant: bool
) -> None:
    first, second, *others = map(torch.tensor, answers)
    again = iter(others)
    assert model_checks.is_constant(first, second, lambda: next(again)) is constant
