"""Problems with shapes that vary from call to call, and not in the draws that describe them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.two_sides import APART, STREAMED, TOGETHER, TwoSides, here
from workers.protocol.problem_spec import Slots
from workers.referee.processes.process_handle import FailedError
from workers.referee.session import first_calls
from workers.referee.session.reference_side import ReferenceFailedError

PROBLEM = """
import torch
DRAWN = []
class Model(torch.nn.Module):
    def forward(self, x):
        return x[x > 0]
def get_inputs():
    DRAWN.append(0)
    return [torch.cat([torch.rand(6) + 1, -torch.ones(GROWS * (len(DRAWN) > 2))])]
"""
CANDIDATE = """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return BODY
"""
VARYING = PROBLEM.replace("torch.ones(GROWS * (len(DRAWN) > 2))", "torch.ones(0)").replace(
    "torch.rand(6) + 1", "torch.rand(6) + (1 if len(DRAWN) <= 2 else -0.5)"
)


@pytest.fixture(autouse=True)
def _here() -> Iterator[None]:
    with here():
        yield


@pytest.mark.parametrize("slots", [TOGETHER, APART, STREAMED])
@pytest.mark.parametrize("problem", [PROBLEM.replace("GROWS", "2"), VARYING])
def test_shapes_that_a_third_draw_changes_are_the_problems(
    tmp_path: Path, problem: str, slots: Slots
) -> None:
    """The candidate is the reference itself."""
    sides = TwoSides(tmp_path, problem, CANDIDATE.replace("BODY", "x[x > 0]"), slots)
    with pytest.raises(ReferenceFailedError, match="shape"):
        sides.runner.try_calls(sides.runner.draw(2))


@pytest.mark.parametrize("slots", [APART, STREAMED])
def test_the_first_call_too(tmp_path: Path, slots: Slots) -> None:
    sides = TwoSides(tmp_path, VARYING, CANDIDATE.replace("BODY", "x[x > 0]"), slots)
    with pytest.raises(ReferenceFailedError, match="vary from call to call: output 0"):
        first_calls.make_first(sides.runner)


@pytest.mark.parametrize("slots", [TOGETHER, APART, STREAMED])
def test_a_candidates_own_shape_is_its_fault(tmp_path: Path, slots: Slots) -> None:
    problem = PROBLEM.replace("GROWS", "0")
    sides = TwoSides(tmp_path, problem, CANDIDATE.replace("BODY", "x[:2]"), slots)
    with pytest.raises(FailedError, match="expected shape"):
        sides.runner.try_calls(sides.runner.draw(2))
