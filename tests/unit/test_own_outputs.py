"""The reference's own outputs, which are asked for once for the same calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.unit.two_sides import APART, STREAMED, TwoSides, here
from workers.protocol import problem_spec
from workers.protocol.control_channel import Command
from workers.referee.session import variant_calls
from workers.referee.session.batches import Truth

PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1) * x
def get_inputs():
    return [torch.randn(16, 64)]
"""
CANDIDATE = PROBLEM.replace("class Model", "class ModelNew")


def _sides(folder: Path, slots: problem_spec.Slots) -> tuple[TwoSides, list[int]]:
    sides = TwoSides(folder, PROBLEM, CANDIDATE, slots)
    process: Any = sides.reference.process
    return sides, process.asked


@pytest.mark.parametrize("slots", [APART, STREAMED])
def test_own_outputs_of_the_same_calls_are_asked_for_once(
    tmp_path: Path, slots: problem_spec.Slots
) -> None:
    with here():
        sides, asked = _sides(tmp_path, slots)
        runner = sides.runner
        batch = runner.draw(1)
        [first] = runner.own_outputs([(batch, 0, 1)])
        before, kept = asked.count(Command.EXPECT), first.clone()
        [again] = runner.own_outputs([(batch, 0, 1)])
        assert asked.count(Command.EXPECT) == before
        assert torch.equal(again, kept)
        other = runner.draw(1)
        [new] = runner.own_outputs([(other, 0, 1)])
        assert asked.count(Command.EXPECT) == before + 1
        assert not torch.equal(new, kept)
        [back] = runner.own_outputs([(batch, 0, 1)])
        assert asked.count(Command.EXPECT) == before + 2
        assert torch.equal(back, kept)


def test_each_kind_of_unusual_inputs_takes_one_own_answer(tmp_path: Path) -> None:
    with here():
        sides, asked = _sides(tmp_path, APART)
        runner = sides.runner
        for _ in range(3):  # calls that tell the reference's own errors
            delivery = runner.run_candidate(runner.draw(1), 0, 1)
            assert runner.verify(delivery)
        truth: Truth = runner.truth([(delivery.batch, 0, 1)])
        sizes = variant_calls.answer_sizes(truth)
        before = asked.count(Command.EXPECT)
        variant_calls.try_variants(runner, sizes)
        requests = asked.count(Command.VARY)
        assert runner.record.near_calls
        assert asked.count(Command.EXPECT) - before <= requests
        assert not runner.failed
