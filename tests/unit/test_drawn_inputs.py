"""Inputs in one slot tell nothing about the next."""

import random
from types import SimpleNamespace
from typing import Any

import numpy
import torch

from workers.protocol import problem_spec
from workers.shims import reference

SEED = bytes(range(32))


def _drawn(row: int, count: int) -> list[tuple[list[float], float, float]]:
    """Rows of a batch, drawn into slots 1 and following."""
    shim: Any = object.__new__(reference.Shim)
    shim._device, shim._playback, shim._problem = (
        torch.device("cpu"),
        None,
        SimpleNamespace(by_cases=False),
    )
    arena = SimpleNamespace(slots=problem_spec.Slots(5, 0))
    session: Any = SimpleNamespace(
        inputs=[[] for _ in range(5)], recording=None, arena=arena, answers_of=lambda _: None
    )

    def fill(_: Any, inputs: list[Any], __: None) -> None:
        inputs.append((torch.rand(3).tolist(), random.random(), float(numpy.random.rand())))

    shim._filler = SimpleNamespace(fill=fill)
    shim._generate(session, 1, count, row, SEED)
    return [inputs[0] for inputs in session.inputs[1 : 1 + count]]


def test_each_slot_has_numbers_of_its_own_whatever_was_drawn_before() -> None:
    """Twenty thousand numbers of one stream determine the rest."""
    all_slots = _drawn(0, 4)
    assert len({str(drawn) for drawn in all_slots}) == 4
    assert _drawn(0, 4) == all_slots
    assert _drawn(2, 2) == all_slots[2:]
