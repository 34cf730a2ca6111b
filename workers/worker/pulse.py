"""Pulses of a worker's pool processes, in memory that they share with its main process.

A pool process that is frozen (SIGSTOP) or holds Python's lock for ever enforces none of its own
limits: neither the job's nor its lease's.  Celery's time limit is made for the longest possible job
and would keep the slot for hours.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from collections.abc import Callable, Collection, Mapping

BEAT_S = 5.0
"""Period of a pool process's pulse, in seconds."""
SILENT_S = 60.0
"""Seconds without a pulse after which a pool process is killed."""
LEAST_CHECKS = 3
"""Checks in a row that must find no pulse: the first one after a pause of the whole
host proves nothing.
"""

_RECORD = struct.Struct("=QQ")


class Pulses:
    """A pid and a counter for each slot, in memory created before the pool processes are forked."""

    def __init__(self, slots: int) -> None:
        self._memory = mmap.mmap(-1, slots * _RECORD.size)

    def beat(self, slot: int, count: int) -> None:
        """Record that the calling process is alive."""
        _RECORD.pack_into(self._memory, slot * _RECORD.size, os.getpid(), count)

    def start(self, slot: int) -> None:
        """Start a thread that beats until the process ends."""
        self.beat(slot, 1)
        threading.Thread(target=self._loop, args=(slot,), name="pulse", daemon=True).start()

    def _loop(self, slot: int) -> None:
        count = 1
        while True:
            time.sleep(BEAT_S)
            count += 1
            self.beat(slot, count)

    def read(self) -> dict[int, int]:
        """Pulses so far by pid."""
        return dict(_RECORD.iter_unpack(self._memory[:]))


class PulseCheck:
    """Detects pool processes without a pulse."""

    def __init__(self, pulses: Callable[[], Mapping[int, int]], silent_s: float = SILENT_S) -> None:
        self._pulses = pulses
        self._silent_s = silent_s
        self._seen: dict[int, tuple[int, float, int]] = {}
        """By pid: the pulse, the time at which it was seen first, and the checks
        that saw it since.
        """

    def silent(self, pids: Collection[int], now_s: float) -> list[int]:
        """The pids without a change of pulse in the checks of the last `silent_s` seconds."""
        pulses = self._pulses()
        seen = {}
        for pid in pids:
            pulse = pulses.get(pid, 0)
            before, since, checks = self._seen.get(pid, (-1, now_s, 0))
            seen[pid] = (pulse, since, checks + 1) if pulse == before else (pulse, now_s, 0)
        self._seen = seen
        return [
            pid
            for pid, (_, since, checks) in seen.items()
            if checks >= LEAST_CHECKS and now_s - since >= self._silent_s
        ]
