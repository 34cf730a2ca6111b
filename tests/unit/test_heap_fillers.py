"""A heap's holes are filled, so that later objects lie side by side."""

from __future__ import annotations

import itertools

import pytest

from workers.shims import heap_fillers
from workers.shims.heap_fillers import Fillers

SIZE, COUNT = 96, 20_000
"""Bytes of an object, and objects among which holes are made."""


def side_by_side(places: list[int], distance: int) -> float:
    """Share of the neighbours in `places` that lie at that distance."""
    return sum(b - a == distance for a, b in itertools.pairwise(places)) / (len(places) - 1)


def objects(count: int) -> list[bytes]:
    return [bytes(SIZE - b"".__sizeof__()) for _ in range(count)]


def test_objects_made_after_others_were_freed_lie_side_by_side() -> None:
    others = objects(COUNT)
    del others[::3]
    scattered = objects(300)
    fillers = Fillers()
    placed = objects(300)
    assert side_by_side(list(map(id, scattered)), SIZE) < 0.5
    assert side_by_side(list(map(id, placed)), SIZE) > 0.9
    assert fillers._objects


def test_so_does_memory_of_the_c_library() -> None:
    libc = heap_fillers._libc
    others = [libc.malloc(600) for _ in range(2_000)]
    for address in others[::2]:
        libc.free(address)
    fillers = Fillers()
    placed = [libc.malloc(600) for _ in range(40)]
    assert side_by_side(placed, 608) > 0.9
    for address in [*placed, *others[1::2]]:
        libc.free(address)
    assert fillers._chunks


def test_models_that_come_and_go_do_not_become_fillers() -> None:
    fillers = Fillers()
    counts = []
    for _ in range(30):
        model = objects(COUNT // 10)
        fillers.renew()
        counts.append(sum(map(len, fillers._objects)))
        del model
    assert max(counts[10:]) < 2 * max(counts[:10])


def test_a_size_with_many_holes_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap_fillers, "MOST", 10)
    assert len(heap_fillers._chunks(24)) == len(heap_fillers._objects(48)) == 10
