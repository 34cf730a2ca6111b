"""How late a process wakes on a core that is kept awake, as one that is timed does: stopped, sent a
message, continued.

    python -m tests.bench.wakeups [--stretches 60] [--rounds 2]

A stretch is what a benchmark is on a host: one side is new, the other has worked elsewhere, both
come to a core that was just waked, and take turns there.  Side by side: `turning`, where a process
of the lowest class keeps the core awake and only turns, and `offering`, which the referee has
(workers/referee/host/core_waker.py).  Needs two cores; prints JSON: microseconds until a process
does something, and how many took longer than half a millisecond.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import socket
import statistics
import struct
import time
from array import array
from collections.abc import Callable
from multiprocessing.context import ForkProcess

from workers.referee.host import core_waker
from workers.sandbox import syscalls

LATE_US = 500.0
BLOCK_NS = 2_000_000
TURNS = ("new", "old", "old", "new") * 3
FORK = multiprocessing.get_context("fork")
_NS = struct.Struct("<Q")


def _turn() -> None:
    while True:
        pass


def _offer() -> None:
    core_waker.spin(memoryview(array("Q", [0] * (core_waker.RECENT + 1))))


KINDS: dict[str, Callable[[], None]] = {"turning": _turn, "offering": _offer}


class Side:
    """A process that works on demand."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = _started(_work, theirs)
        self.pid = self._process.pid or 0

    def work(self, nanoseconds: int) -> None:
        """Have it work, wherever it likes."""
        self._ours.send(_NS.pack(nanoseconds))
        self._ours.recv(_NS.size)

    def wake(self, nanoseconds: int) -> float:
        """The same, from where it stands still to where it does again; microseconds
        until it began.
        """
        os.kill(self.pid, signal.SIGSTOP)
        time.sleep(0.0005)
        self._ours.send(_NS.pack(nanoseconds))
        sent = time.perf_counter_ns()
        os.kill(self.pid, signal.SIGCONT)
        while True:
            try:
                (began,) = _NS.unpack(self._ours.recv(_NS.size, socket.MSG_DONTWAIT))
            except BlockingIOError:
                continue
            os.kill(self.pid, signal.SIGSTOP)
            return float(began - sent) / 1000

    def end(self) -> None:
        """For good."""
        _end(self._process)


def _started(what: Callable[..., None], *arguments: object) -> ForkProcess:
    process = FORK.Process(target=what, args=arguments, daemon=True)
    process.start()
    return process


def _end(process: ForkProcess) -> None:
    process.kill()
    process.join()


def _work(channel: socket.socket) -> None:
    os.setsid()
    while asked := channel.recv(_NS.size):
        began = time.perf_counter_ns()
        until = began + _NS.unpack(asked)[0]
        while time.perf_counter_ns() < until:
            pass
        channel.send(_NS.pack(began))


def _keep_awake(core: int, turn: Callable[[], None]) -> None:
    os.setsid()
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    syscalls.nice_session(19)
    os.sched_setaffinity(0, {core})
    turn()


def _stretches(kind: str, count: int, found: dict[str, list[float]]) -> None:
    everywhere = os.sched_getaffinity(0)
    clock, *_, core = sorted(everywhere)
    old, turning = Side(), _started(_keep_awake, core, KINDS[kind])
    os.kill(turning.pid or 0, signal.SIGSTOP)
    try:
        for _ in range(count):
            _stretch(old, Side(), turning.pid or 0, everywhere, clock, core, found)
    finally:
        os.sched_setaffinity(0, everywhere)
        old.end()
        _end(turning)


def _stretch(
    old: Side,
    new: Side,
    turning: int,
    everywhere: set[int],
    clock: int,
    core: int,
    found: dict[str, list[float]],
) -> None:
    os.sched_setaffinity(old.pid, everywhere)
    os.kill(old.pid, signal.SIGCONT)
    for _ in range(5):
        old.work(4 * BLOCK_NS)
    os.sched_setaffinity(0, {clock})
    os.kill(turning, signal.SIGCONT)
    for side in (old, new):
        os.sched_setaffinity(side.pid, {core})
    met = set()
    for turn in TURNS:
        first = turn not in met
        met.add(turn)
        wake_us = (new if turn == "new" else old).wake(0 if first else BLOCK_NS)
        found.setdefault(f"{turn}, first" if first else turn, []).append(wake_us)
    os.kill(turning, signal.SIGSTOP)
    new.end()


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stretches", type=int, default=60, help="of each kind, a round")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = {kind: {} for kind in KINDS}
    for _ in range(arguments.rounds):
        for kind, wakes in found.items():
            _stretches(kind, arguments.stretches, wakes)
    report = {
        kind: {turn: _summary(us) for turn, us in wakes.items()} for kind, wakes in found.items()
    }
    print(json.dumps(report, indent=1))


def _summary(wakes_us: list[float]) -> dict[str, float]:
    return {
        "wakes": len(wakes_us),
        "p50_us": round(statistics.median(wakes_us)),
        "longest_us": round(max(wakes_us)),
        "late": sum(us > LATE_US for us in wakes_us),
    }


if __name__ == "__main__":
    main()
