"""Both sides of a benchmark launch from a core that is fast at the moment."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from workers.referee.host import launching_core
from workers.referee.host.cpu_affinity import Cores
from workers.referee.host.launching_core import LaunchingCore

CORES = Cores(stopwatch=frozenset({9}), timed=frozenset({4, 5, 6}), others=frozenset({0, 1}))
SIDES = [100, 200]
FAST, SLOW = 5000, 8500


class Speeds:
    """Loop times of cores, which a test sets; stands for CoreWaker."""

    def __init__(self, loops: dict[int, int], usual_ns: int = FAST) -> None:
        self.loops = loops
        self.usual_ns = usual_ns
        self.fastest_ns: deque[int] = deque()
        self.looks = 0
        self.later: Callable[[], None] = lambda: None

    def loop_ns(self) -> dict[int, int]:
        self.looks += 1
        if self.looks > 3:
            self.later()
        return dict(self.loops)


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[int]]]:
    """Cores that processes were bound to, in order."""
    found: list[tuple[int, list[int]]] = []
    monkeypatch.setattr(Cores, "launch_from", lambda _, core, pids: found.append((core, pids)))
    return found


def _core(speeds: Speeds) -> LaunchingCore:
    unchecked: Any = speeds
    return LaunchingCore(CORES, unchecked, SIDES)


def test_both_sides_move_to_the_fastest_core_when_theirs_is_slow(
    bound: list[tuple[int, list[int]]],
) -> None:
    speeds = Speeds({4: FAST, 5: FAST - 100, 6: FAST, 9: FAST // 2})
    core = _core(speeds)
    core.choose()
    assert bound == [(4, SIDES)]  # a little slower than another is no reason to move
    speeds.loops[4] = SLOW
    core.choose()
    assert bound[1:] == [(5, SIDES)]  # 9 is the stopwatch's
    core.choose()
    assert bound[2:] == []
    assert list(speeds.fastest_ns) == [FAST - 100] * 3


def test_a_core_that_another_process_has_is_left(bound: list[tuple[int, list[int]]]) -> None:
    speeds = Speeds({5: SLOW, 6: FAST})
    _core(speeds).choose()
    assert bound == [(4, SIDES), (6, SIDES)]


def test_where_all_cores_are_slow_it_waits_a_moment(
    bound: list[tuple[int, list[int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patient:
        patient.setattr(launching_core, "PATIENCE_S", 10.0)
        speeds = Speeds({4: SLOW, 5: SLOW, 6: SLOW})
        speeds.later = lambda: speeds.loops.update({6: FAST})
        _core(speeds).choose()
    assert bound == [(4, SIDES), (6, SIDES)]

    speeds = Speeds({4: SLOW, 5: SLOW, 6: SLOW})
    began = time.monotonic()
    _core(speeds).choose()
    assert time.monotonic() - began >= launching_core.PATIENCE_S
    assert bound[2:] == [(4, SIDES)]


def test_without_knowledge_both_sides_stay(bound: list[tuple[int, list[int]]]) -> None:
    speeds = Speeds({}, usual_ns=0)
    _core(speeds).choose()
    assert bound == [(4, SIDES)]
    assert not speeds.fastest_ns
