"""What the reference draws into one slot says nothing about the next."""

import random
from types import SimpleNamespace
from typing import Any

import numpy
import torch

from workers import reference

SEED = bytes(range(32))


def _drawn(first: int, count: int) -> list[tuple[list[float], float, float]]:
    shim: Any = object.__new__(reference.Shim)
    shim._device, shim._playback, shim._by_cases = torch.device("cpu"), None, False
    session: Any = SimpleNamespace(views=[[] for _ in range(4)], recording=None)
    shim._fill = lambda _, views: views.append((torch.rand(3).tolist(), random.random(), float(numpy.random.rand())))
    shim._generate(session, first, count, SEED)
    return [views[0] for views in session.views[first : first + count]]


def test_each_slot_has_numbers_of_its_own_whatever_was_drawn_before() -> None:
    """Of one stream, who has seen twenty thousand numbers knows the rest."""
    all_slots = _drawn(0, 4)
    assert len({str(drawn) for drawn in all_slots}) == 4
    assert _drawn(0, 4) == all_slots
    assert _drawn(2, 2) == all_slots[2:]
