"""The heap of a side's process: holes are filled, and its end is free memory."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest

from workers.referee.host import device
from workers.shims import heap
from workers.shims.heap import Fillers

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
    libc = heap._libc
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
    monkeypatch.setattr(heap, "MOST", 10)
    assert len(heap._chunks(24)) == len(heap._objects(48)) == 10


LARGE = """
import ctypes
from workers.shims import heap
end = ctypes.CDLL(None).sbrk
end.restype, end.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t]
def is_in_heap():
    block = heap._libc.malloc(300 << 20)
    found = block < end(0)
    heap._libc.free(block)
    return found
print(is_in_heap())
heap.lengthen()
print(is_in_heap(), is_in_heap())
heap.trim()
print(is_in_heap())
"""


def test_a_large_tensor_lies_in_the_heap_once_it_is_lengthened() -> None:
    environment = {**os.environ, **device._KEPT_MEMORY}
    command = [sys.executable, "-c", LARGE]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "True", "True", "False"]
