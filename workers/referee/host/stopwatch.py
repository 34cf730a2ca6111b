"""The stopwatch: a single-threaded process that wakes a frozen process, waits for its
answer, takes the time, and freezes it again at once, so that its threads cannot continue
work after it has reported done.

The referee has many threads, of which Python runs one at a time, so a thread that waits for
the end of a block is sometimes late.  The stopwatch does nothing else.  It needs no torch
and is trusted like the referee.

    python -m workers.referee.host.stopwatch FD       started by `Stopwatch`
"""

from __future__ import annotations

import array
import contextlib
import os
import signal
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass

from workers.referee.host import helper_process
from workers.sandbox import syscalls
from workers.sandbox.zygote import prefer

ORDER = struct.Struct("<QII")
"""Longest wait in nanoseconds; bytes of the message; number of process ids.  Message
and ids follow.
"""

RESULT = struct.Struct("<QQI")
"""Begin and end (CLOCK_MONOTONIC, nanoseconds; end is 0 if no answer came in time);
bytes of the answer, which follows.
"""

_PID = struct.Struct("<i")
_LARGEST = 64 << 10
"""Bytes of the longest message."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """One measurement."""

    began_ns: int
    """Begin on time.perf_counter_ns, which all processes share."""
    ended_ns: int
    reply: bytes | None
    """None if no reply came in time, or the process is gone: the caller waits by itself."""


class Stopwatch:
    """The stopwatch as the referee uses it; one measurement at a time.  `close` ends it."""

    def __init__(self, *, spins: bool = False) -> None:
        """Starts the process.

        `spins`: `run` waits without sleeping, for a stopwatch that has a core of its own.  A thread
        that sleeps for a block lets its core halt and wakes late, with the device held: blocks and
        hand-overs, 62 an evaluation, took 0.1 ms less each with all cores kept awake (H100).
        """
        self._spins = spins
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            fd = theirs.fileno()
            self._process = helper_process.start(
                "workers.referee.host.stopwatch", fd, pass_fds=[fd]
            )
        self._channel = ours
        self._lock = threading.Lock()

    @property
    def is_alive(self) -> bool:
        """True if the process has not ended."""
        return self._process.poll() is None

    def run(self, channel: socket.socket, message: bytes, pids: list[int], wait_s: float) -> Taken:
        """Send `message` into the channel, take the time, wake the processes, wait
        for the answer, and stop them.
        """
        order = ORDER.pack(round(wait_s * 1e9), len(message), len(pids))
        data = b"".join([order, message, *map(_PID.pack, pids)])
        fds = array.array("i", [channel.fileno()])
        with self._lock:
            self._channel.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            answer = self._answer(wait_s if self._spins else 0.0)
        if not answer:
            raise ConnectionAbortedError(f"the stopwatch ended with code {self._process.wait()}")
        began, ended, size = RESULT.unpack_from(answer)
        reply = answer[RESULT.size :] if ended else None
        return Taken(began_ns=began, ended_ns=ended, reply=reply if size else None)

    def _answer(self, spin_s: float) -> bytes:
        """The next message of the process, waited for without sleeping for `spin_s`."""
        until = time.monotonic() + spin_s
        while time.monotonic() < until:
            with contextlib.suppress(BlockingIOError):
                return self._channel.recv(_LARGEST, socket.MSG_DONTWAIT)
        return self._channel.recv(_LARGEST)

    def move(self, cores: frozenset[int]) -> None:
        """Run on these cores."""
        os.sched_setaffinity(self._process.pid, cores)

    def close(self) -> None:
        """End the process."""
        self._channel.close()
        self._process.kill()
        self._process.wait()


def main(fd: int) -> None:
    """Measure on request until the referee closes the channel."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    prefer()
    orders = socket.socket(fileno=fd)
    while True:
        fds = array.array("i")
        data, ancillary, _, _ = orders.recvmsg(_LARGEST, socket.CMSG_LEN(fds.itemsize))
        if not data:
            return
        fds.frombytes(ancillary[0][2][: fds.itemsize])
        with socket.socket(fileno=fds[0]) as channel:
            wait_ns, size, count = ORDER.unpack_from(data)
            message = data[ORDER.size : ORDER.size + size]
            pids = [
                _PID.unpack_from(data, ORDER.size + size + index * _PID.size)[0]
                for index in range(count)
            ]
            orders.send(_measure(channel, message, pids, wait_ns))


def _measure(channel: socket.socket, message: bytes, pids: list[int], wait_ns: int) -> bytes:
    receive, now = channel.recv, time.perf_counter_ns
    try:
        channel.send(message)
    except OSError:  # the process is gone, as the referee will notice
        return RESULT.pack(now(), 0, 0)
    began = now()
    _signal(pids, signal.SIGCONT)
    until = began + wait_ns
    while True:
        try:
            reply = receive(_LARGEST, socket.MSG_DONTWAIT)
        except BlockingIOError:
            if now() > until:
                return RESULT.pack(began, 0, 0)
            continue
        except OSError:
            return RESULT.pack(began, 0, 0)
        ended = now()
        _signal(pids, signal.SIGSTOP)
        return RESULT.pack(began, ended, len(reply)) + reply[: _LARGEST - RESULT.size]


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main(int(sys.argv[1]))
