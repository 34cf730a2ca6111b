"""The core from which both sides of a benchmark launch: one of the quiet cores that is fast now.

A core of a virtual machine is slow for some 30 ms at a time, at other times than the next one
(core_waker.py).  With one core for all, a Triton softmax of 43 µs took 43 to 75 µs, for a second at
a time, because launching it took longer than computing it; intervals of its speedup were ± 26 %,
and are ± 5 % with a core chosen before each block (H200, eight evaluations in flight).
"""

from __future__ import annotations

import math
import time

from workers.referee.host.core_waker import CoreWaker
from workers.referee.host.cpu_affinity import Cores

TOLERATED = 1.12
"""Time of a loop, relative to the fastest core's, up to which both sides stay on a core: another
one has none of their code and data in its caches.
"""

SLOW = 1.2
"""Time of a loop, relative to that of a core which is usually the fastest, from which on all cores
are slow.
"""

PATIENCE_S, LOOK_S = 0.004, 0.0002
"""Longest wait for a fast core, and time between two looks, in seconds."""


class LaunchingCore:
    """The core of the first threads of both sides, which launch."""

    def __init__(self, cores: Cores, core_waker: CoreWaker, pids: list[int]) -> None:
        """`core_waker` keeps `cores` awake; the processes `pids` run on them, and nothing else."""
        self._cores = cores
        self._core_waker = core_waker
        self._pids = pids
        self._core = min(cores.timed)
        cores.launch_from(self._core, pids)

    def choose(self) -> None:
        """Move to the fastest core if this one is slow.  If all are, wait a moment for one.
        Neither side may run: a core is measured while it is free.
        """
        loop_ns = self._loop_ns()
        until = time.monotonic() + PATIENCE_S
        while self._are_slow(loop_ns) and time.monotonic() < until:
            time.sleep(LOOK_S)
            loop_ns = self._loop_ns()
        if not loop_ns:
            return
        fastest = min(loop_ns, key=lambda core: loop_ns[core])
        self._core_waker.fastest_ns.append(loop_ns[fastest])
        if loop_ns.get(self._core, math.inf) > TOLERATED * loop_ns[fastest]:
            self._core = fastest
            self._cores.launch_from(fastest, self._pids)

    def _loop_ns(self) -> dict[int, int]:
        return {
            core: each
            for core, each in self._core_waker.loop_ns().items()
            if core in self._cores.timed
        }

    def _are_slow(self, loop_ns: dict[int, int]) -> bool:
        usual_ns = self._core_waker.usual_ns
        return bool(loop_ns) and usual_ns > 0 and min(loop_ns.values()) > SLOW * usual_ns
