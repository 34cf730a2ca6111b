"""Answers that a reference's process has made already."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from workers.protocol import problem_spec, product_errors, shared_memory
from workers.protocol.input_variants import Variant
from workers.shims.problem import input_slots
from workers.shims.problem.answers import narrow_products, true_answer
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


def _session(folder: Path, source: str) -> tuple[InputSlots, Session, list[torch.dtype | None]]:
    problem = Problem(folder, CPU)
    assert not problem.load(source.encode(), "Model", by_cases=False)
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
    slots, session, calls = _session(tmp_path, SOURCE.replace("LOOP", "pass"))
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
    slots, session, calls = _session(tmp_path, SOURCE.replace("LOOP", ENDLESS))
    for _ in range(2):
        made, refused = slots.vary(session, 0, 1 << Variant.SCALED, 1, SEED)
        assert (made, refused) == (0, "scaled: the reference raises TimeoutError\n")
    assert calls.count(None) == 1


BEHIND_A_SUM = """
import torch
calls = []
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(256, 400)
    def forward(self, x):
        calls.append(x.dtype)
        return torch.sigmoid(self.layer(x)).sum(1, keepdim=True)
def get_inputs():
    return [torch.rand(200, 256)]
"""


def test_later_questions_about_products_take_the_true_answer_without_a_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots, session, _ = _session(tmp_path, BEHIND_A_SUM)
    plain: list[bool] = []
    answer = narrow_products._Question.plain_answer

    def counted(asked: narrow_products._Question) -> list[torch.Tensor]:
        plain.append(True)
        return answer(asked)

    monkeypatch.setattr(narrow_products._Question, "plain_answer", counted)
    slots.fill(session, session.inputs[0], session.answers[0])
    assert session.arena is not None
    assert session.memory is not None
    for view, own in zip(
        session.arena.outputs.views(session.memory, 0), session.own[0], strict=True
    ):
        view.copy_(own)
    known, found = None, []
    for _ in range(3):
        told = narrow_products.sums(session, 0, 0, product_errors.ALL, known)
        assert told is not None
        found.append(told[0])
        known = told[1]
        assert not known.is_empty
    assert known is not None
    assert known.is_plain
    assert known.is_slow is not None
    # The first compares the two, the second measures, and the third takes the shorter one.
    assert len(plain) == 2
    assert found[1] == found[2]
