"""Answers that a reference's process has made already."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from workers.protocol import problem_spec, shared_memory
from workers.protocol.input_variants import Variant
from workers.shims.problem import input_slots
from workers.shims.problem.answers import true_answer
from workers.shims.problem.input_slots import InputSlots
from workers.shims.problem.reference_problem import Problem
from workers.shims.problem.reference_session import Session

CPU, SEED = torch.device("cpu"), bytes(32)

SOURCE = """
import torch
calls = []
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)
    def forward(self, x):
        calls.append(x.dtype)
        LOOP
        return torch.tanh(self.layer(x))
def get_inputs():
    return [torch.randn(8, 16)]
"""
ENDLESS = "while float(x.abs().max()) > 8: calls[-1] = None"


def _session(folder: Path, loop: str) -> tuple[InputSlots, Session, list[torch.dtype | None]]:
    problem = Problem(folder, CPU)
    assert not problem.load(SOURCE.replace("LOOP", loop).encode(), "Model", by_cases=False)
    session = problem.session(0, SEED, sole=True)
    slots = problem_spec.Slots(4, 4)
    arena = session.arena = problem_spec.arena(session.spec, slots)
    _, session.memory = shared_memory.create(CPU, arena.reference_bytes)
    views = [
        [region.views(session.memory, slot) for slot in range(4)]
        for region in (arena.inputs, arena.baseline, arena.expected)
    ]
    session.inputs, session.own = views[:2]
    session.answers = list(zip(views[1], views[2], strict=True))
    calls: list[torch.dtype | None] = problem._module.calls
    calls.clear()
    return InputSlots(problem), session, calls


def test_a_variant_takes_two_true_answers(tmp_path: Path) -> None:
    slots, session, calls = _session(tmp_path, "pass")
    assert session.spec.truth == true_answer.Truth.FP64
    kinds = (Variant.SCALED, Variant.EDGES)
    made, _ = slots.vary(session, 0, sum(1 << each for each in kinds), 1, SEED)
    assert made == sum(1 << each for each in kinds)
    # Usual inputs: an answer and one to rounded inputs; then for each kind those two and the own.
    assert calls.count(torch.float64) == 2 + 2 * len(kinds)
    assert calls.count(torch.float32) == len(kinds)
    calls.clear()
    slots.vary(session, 0, 1 << Variant.SCALED, 1, SEED)
    assert len(calls) == 2
    calls.clear()
    slots.vary(session, 0, 1 << Variant.NONFINITE, 1, SEED)
    assert calls == [torch.float32]  # no answer of its own to NaN has to be right


def test_inputs_on_which_a_call_never_ends_are_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_slots, "ENDLESS_S", 0.05)
    monkeypatch.setattr(input_slots, "ENDLESS_CALLS", 0)
    slots, session, calls = _session(tmp_path, ENDLESS)
    for _ in range(2):
        made, refused = slots.vary(session, 0, 1 << Variant.SCALED, 1, SEED)
        assert (made, refused) == (0, "scaled: the reference raises TimeoutError\n")
    assert calls.count(None) == 1
