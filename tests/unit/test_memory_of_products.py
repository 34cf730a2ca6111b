"""Memory for answers with narrow products is reserved with the rest, and a question without an
answer shows in the result.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest
import torch

from tests.unit.test_memory_needs import spec
from tests.unit.test_narrow_products import SUM, looked_at
from tests.unit.two_sides import STREAMED, TwoSides, here
from workers.protocol import problem_spec
from workers.protocol.reference_work import ReferenceWork
from workers.referee.probes import narrow_products
from workers.referee.session import memory_needs
from workers.shims.problem.answers import narrow_products as predictions

WEIGHT: dict[str, Any] = {
    "kind": "tensor",
    "shape": [32768, 32768],
    "dtype": "float32",
    "stride": None,
}
LAYER = replace(
    spec(128 * 32768),
    parameters={"l.weight": WEIGHT},
    peaks=problem_spec.Peaks(draw_bytes=1 << 25, call_bytes=1 << 25, truth_bytes=1 << 26),
    work=ReferenceWork(flops=1 << 40),
)
"""A layer of 4 GB, as of KernelBench 2/56: its weights in fp64 take 8 GB."""


def reserved(problem: problem_spec.ProblemSpec, slots: int | problem_spec.Slots = 2) -> int:
    arena = problem_spec.arena(problem, slots)
    return memory_needs.of_evaluation(problem, arena, 2 << 30, 512 << 20)


@pytest.mark.parametrize("slots", [2, problem_spec.Slots(1, 0)])
def test_a_copy_of_the_weights_is_reserved(slots: int | problem_spec.Slots) -> None:
    problem = replace(LAYER, piece_rows=16)
    none = replace(problem, work=ReferenceWork())
    assert problem.twin_bytes == 8 << 30
    assert reserved(problem, slots) - reserved(none, slots) > 3 << 30


@pytest.mark.parametrize(
    "problem",
    [
        replace(LAYER, work=ReferenceWork()),
        replace(LAYER, mutated_inputs=(0,)),
        replace(LAYER, truth=problem_spec.OWN_TRUTH),
    ],
    ids=["no products", "inputs change", "no truth"],
)
def test_nothing_is_reserved_where_nothing_is_asked(problem: problem_spec.ProblemSpec) -> None:
    assert not memory_needs.may_ask_of_products(problem)
    assert memory_needs.of_products(problem) == 0


def test_narrow_factors_and_results_are_reserved_beside_wide_ones() -> None:
    problem = replace(LAYER, parameters={})
    assert memory_needs.of_products(problem) >= 2 * problem.peaks.truth_bytes


def test_calls_that_are_streamed_whole_are_not_asked_about() -> None:
    one, other = LAYER, replace(LAYER, work=ReferenceWork())
    assert reserved(one, STREAMED) == reserved(other, STREAMED)


def test_the_result_says_that_nothing_could_be_predicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[TwoSides] = []
    monkeypatch.setattr(
        "tests.unit.test_narrow_products.TwoSides",
        lambda *each: told.append(TwoSides(*each)) or told[0],
    )
    with here():
        assert looked_at(tmp_path, SUM, SUM, STREAMED) is None
    assert told[0].runner.record.excused == [narrow_products.UNKNOWN]


def test_one_predicted_answer_is_kept_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive, most = WeakSet[torch.Tensor](), []
    answer = predictions._Question.answer

    def counted(*given: Any) -> Any:
        found = answer(*given)
        most.append(len(alive))
        alive.update(found[0])
        return found

    monkeypatch.setattr(predictions._Question, "answer", counted)
    with here():
        assert looked_at(tmp_path, SUM, SUM) is not None
    assert len(most) > 10
    assert max(most) == 1
