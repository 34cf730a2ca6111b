"""A confined process as the referee uses it: messages, freezing, timed runs, killing."""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import signal
import socket
import time
from typing import Any, Protocol

from workers.sandbox import proc, warden, zygote
from workers.sandbox.polling import readable
from workers.sandbox.process_errors import BrokenProtocolError, Ended, TimedOut, ZygoteError

STDOUT_KEPT = 16 << 10
"""Bytes of output that are kept; the rest is read and dropped, or the process would block."""

ENDING_S = 0.1
"""Seconds for a warden to report the end of a process that was stopped and still runs: it dies."""

STARTING_S, STOPPING_S = 1.0, 10.0
"""Seconds for `freeze` while a process goes on starting others, and while the kernel takes time to
stop its threads: on a host that swaps, or in a driver's call, that is no doing of the process.
"""

LOOKING_S, PAUSE_S = 0.0005, 0.0001
"""Seconds for which `freeze` looks again at once, and between its later looks: threads stop within
some 10 µs, and a sleep, even of no time, takes 60 to 160 µs longer than it should.
"""

Timed = tuple[int, bytes]
"""Nanoseconds, and the answer."""


class StopwatchInterface(Protocol):
    """Interface of the clock; see workers/referee/host/stopwatch.py."""

    def run(self, channel: socket.socket, message: bytes, pids: list[int], wait_s: float) -> Any:
        """Send the message into the channel, start the clock, wake the processes, wait for
        the answer, stop the processes.
        """
        ...


class ConfinedProcess:
    """A process in the sandbox: fixed-size messages both ways; its output is kept for people."""

    def __init__(self, channel: socket.socket, notes: socket.socket, stdout: int) -> None:
        """Takes ownership of all three."""
        self._channel = channel
        self._notes = notes
        self._stdout = stdout
        self._pid: int | None = None
        self._end: Ended | None = None
        self._frozen: list[int] = []
        self._all_stopped = False
        """True if every thread in `_frozen` was seen stopped, and there is no other."""
        self._threads: proc.Threads | None = None
        """Threads of the process, kept from one timed block to the next."""
        self._paused_at: float | None = None
        self._paused_s = 0.0
        """Seconds of earlier pauses."""
        self.output = b""
        self.active: list[str] = []
        self.missing: list[str] = []

    @property
    def pid(self) -> int:
        """Pid of the confined process in this process's namespace.  Waits until it is confined."""
        self.wait_ready()
        assert self._pid is not None
        return self._pid

    def wait_ready(self, timeout_s: float = 30.0) -> None:
        """Wait until the process is confined and its pid is known.  Raises
        ZygoteError if it cannot be confined.
        """
        deadline = time.monotonic() + timeout_s
        while self._pid is None or not self.active:
            if not readable(self._notes, timeout_s=max(0.0, deadline - time.monotonic())):
                raise ZygoteError(f"no process within {timeout_s} s")
            self._take_note()

    def _take_note(self) -> None:
        if self._end is not None:  # asked again: the end is the process's own, not the warden's
            raise Ended(status=self._end.status, out_of_memory=self._end.out_of_memory)
        message = self._notes.recv(zygote.MESSAGE_BYTES)
        if not message:
            raise ZygoteError("the warden is gone")
        kind, number = warden.NOTE.unpack_from(message)
        text = message[warden.NOTE.size :]
        if kind == warden.NOTE_PID:
            self._pid = number
        elif kind == warden.NOTE_READY:
            self.active, self.missing = json.loads(text)
        elif kind == warden.NOTE_FAILED:
            raise ZygoteError(f"the process could not be confined: {text.decode()}")
        else:
            # The kernel may reuse its pid from here on.
            self._end = Ended(status=number, out_of_memory=text == warden.OUT_OF_MEMORY)
            raise self._end

    def _take_notes(self) -> None:
        """Read the notes that have arrived.  Raises Ended if the process has ended:
        its pid may have a new owner.
        """
        while self._end is not None or readable(self._notes):
            self._take_note()

    @property
    def is_running(self) -> bool:
        """True if neither the process nor its warden is known to have ended.  Only for a process
        without an open request: the warden's notice is consumed.
        """
        try:
            self._take_notes()
        except (Ended, ZygoteError):
            return False
        return True

    def send(self, message: bytes, fds: tuple[int, ...] = ()) -> None:
        """Send one message, with file descriptors to share.  The end of the process
        is noticed by `receive`.
        """
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self._channel.sendmsg([message], ancillary)
        except (BrokenPipeError, ConnectionResetError):
            return

    def receive(self, size: int, timeout_s: float, *, spin_s: float = 0.0) -> bytes:
        """The next message of exactly `size` bytes.  Polls without sleeping for `spin_s`, because a
        sleeping thread is woken late by an unknown time.

        Raises TimedOut, Ended, or BrokenProtocolError for a message of another size.
        """
        deadline = time.monotonic() + timeout_s
        spin_until = time.monotonic() + min(spin_s, timeout_s)
        while time.monotonic() < spin_until:
            try:
                message = self._read(size)
            except BlockingIOError:
                continue
            return self._sized(message, size) if message else self._receive_slowly(size, deadline)
        return self._receive_slowly(size, deadline)

    def receive_with_fd(self, size: int, timeout_s: float) -> tuple[bytes, int | None]:
        """The next message, and the descriptor that came with it (the caller's to close), if any.

        Raises TimedOut, Ended, or BrokenProtocolError for a message of another size."""
        deadline = time.monotonic() + timeout_s
        while True:
            left = max(0.0, deadline - time.monotonic())
            ready = readable(self._channel, self._notes, timeout_s=left)
            if self._channel in ready:
                fds = array.array("i")
                space = socket.CMSG_LEN(fds.itemsize)  # for one: the kernel closes any others
                try:
                    message, ancillary, _, _ = self._channel.recvmsg(
                        size + 1, space, socket.MSG_CMSG_CLOEXEC
                    )
                except ConnectionResetError:  # see _read
                    message, ancillary = b"", []
                for level, kind, data in ancillary:
                    if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                        fds.frombytes(data[: fds.itemsize])
                if len(message) == size:
                    return message, fds[0] if fds else None
                for fd in fds:
                    os.close(fd)
                if message:
                    return self._sized(message, size), None  # raises
                ready = [self._notes]  # it closed its channel; the warden reports how it ended
            if self._notes in ready:
                self._take_note()
            elif not ready:
                raise TimedOut

    def _read(self, size: int) -> bytes:
        """Bytes that have arrived; empty if the process closed its channel, or was killed before it
        read a request. Raises BlockingIOError.
        """
        try:
            return self._channel.recv(size + 1, socket.MSG_DONTWAIT)
        except ConnectionResetError:
            return b""

    @staticmethod
    def _sized(message: bytes, size: int) -> bytes:
        if len(message) != size:
            raise BrokenProtocolError(
                f"expected a message of {size} bytes, got"
                f" {len(message)}{' or more' * (len(message) > size)}"
            )
        return message

    def _receive_slowly(self, size: int, deadline: float) -> bytes:
        """Sleep until a message arrives, there is output to read, or the process ends."""
        paused_s = self.paused_s
        poll = select.poll()
        for fd in (self._channel.fileno(), self._notes.fileno(), self._stdout):
            poll.register(fd, select.POLLIN)
        gone = False
        while True:
            left = deadline + self.paused_s - paused_s - time.monotonic()
            ready = {fd for fd, _ in poll.poll(max(0.0, left) * 1000)}
            if self._stdout in ready and not self._drain():
                poll.unregister(self._stdout)
            if self._channel.fileno() in ready and not gone:
                message = self._read(size)
                if message:
                    return self._sized(message, size)
                gone = True  # it closed its channel; the warden reports how it ended
                poll.unregister(self._channel.fileno())
            if self._notes.fileno() in ready:
                self._take_note()
            if left <= 0:
                raise TimedOut

    def _drain(self) -> bool:
        """Read printed output; False at the end of the pipe."""
        data = os.read(self._stdout, 1 << 20)
        self.output = (self.output + data)[:STDOUT_KEPT]
        return bool(data)

    def freeze(self) -> bool:
        """Stop every thread of the process and of its descendants, and wait until
        they have stopped.

        Returns whether it has started processes since the last freeze, which the
        stopwatch could not stop.  Raises TimedOut if it keeps starting more, or if one of
        them does not stop in `STOPPING_S`.
        """
        if self._all_stopped or self._end is not None:
            return False
        known = set(self._frozen)
        began = time.monotonic()
        own = self._observed_threads()
        self._frozen = self._frozen or [own.pid]
        grows = False
        while True:
            for pid in self._frozen:
                _signal(pid, signal.SIGSTOP)
            if self._is_stopped(own):
                there = proc.tree(own)
                grows = there != self._frozen
                # A process that still ran may have woken another that had been looked at before it.
                self._all_stopped = there == self._frozen and (
                    len(there) == 1 or self._is_stopped(own)
                )
                if self._all_stopped:
                    return bool(known) and not known.issuperset(there)
                self._frozen = there
            taken_s = time.monotonic() - began
            if taken_s > (STARTING_S if grows else STOPPING_S):
                raise TimedOut(
                    "it kept starting processes" if grows else "a process of it did not stop"
                )
            if taken_s > LOOKING_S:
                time.sleep(PAUSE_S)

    def _is_stopped(self, own: proc.Threads) -> bool:
        """Test whether each thread is stopped."""
        return own.is_stopped() and all(map(proc.is_stopped, self._frozen[1:]))

    def require_frozen(self) -> None:
        """Check once more that nothing has run since `freeze`, after the writes that no running
        thread may see and before the clock starts.  Takes 0.13 ms for a process with 25 threads.

        Raises BrokenProtocolError if a thread ran, Ended if the process is being
        killed (memory ran out).
        """
        if self._end is not None:
            return
        if not self._all_stopped:
            raise RuntimeError("the process is not frozen")
        own = self._observed_threads()
        # Twice: threads that are dead at the first look are gone at the second.
        if self._is_stopped(own) or self._is_stopped(own):
            return
        if readable(self._notes, timeout_s=ENDING_S):
            self._take_note()
        raise BrokenProtocolError("a thread of it ran while it was stopped")

    def timed(
        self,
        stopwatch: StopwatchInterface,
        message: bytes,
        size: int,
        timeout_s: float,
        spin_s: float,
    ) -> Timed:
        """Send, wake and wait, timed by the stopwatch; see `receive` for the errors raised.

        The process is stopped as soon as it has answered; `freeze` stops processes that it started
        meanwhile.  An answer that takes longer than `spin_s` is waited for as in `receive`.
        """
        self._all_stopped = False
        taken = stopwatch.run(self._channel, message, self._frozen, min(spin_s, timeout_s))
        if taken.reply is not None:
            return taken.ended_ns - taken.began_ns, self._sized(taken.reply, size)
        deadline = time.monotonic() + timeout_s - (time.perf_counter_ns() - taken.began_ns) / 1e9
        reply = self._receive_slowly(size, deadline)
        ended_ns = time.perf_counter_ns()
        for pid in self._frozen:
            _signal(pid, signal.SIGSTOP)
        return ended_ns - taken.began_ns, reply

    def thaw(self) -> None:
        """Continue the process.  Cheap, because the clock is running: `freeze` has
        listed the threads to wake.
        """
        for pid in self._frozen:
            _signal(pid, signal.SIGCONT)
        self._frozen, self._all_stopped = [], False

    @property
    def paused_s(self) -> float:
        """Seconds for which it has been paused so far; `receive` extends its deadline by them."""
        since = self._paused_at
        return self._paused_s + (0.0 if since is None else time.monotonic() - since)

    def pause(self) -> None:
        """Stop it until `resume`, from another thread than the one that waits for its answer.  A
        process that is not confined yet, or keeps starting processes, is left running.
        """
        if self._pid is None:
            return
        self._paused_at = time.monotonic()
        try:
            self.freeze()
        except (TimedOut, OSError):
            self.thaw()

    def resume(self) -> None:
        """Continue it after `pause`."""
        if self._paused_at is not None:
            self.thaw()
            self._paused_s += time.monotonic() - self._paused_at
            self._paused_at = None

    def _observed_threads(self) -> proc.Threads:
        """The threads of the process, with the files that stay open."""
        pid = self.pid if self._pid is None else self._pid
        self._threads = self._threads or proc.Threads(pid, kept=proc.KEPT_FILES)
        return self._threads

    def close_proc_files(self) -> None:
        """Close its /proc files: it will not be stopped for a while."""
        if self._threads is not None:
            self._threads.close()
            self._threads = None

    def start_kill(self) -> None:
        """Kill all its processes, and leave the rest to `kill`; a caller that waits
        for an answer gets Ended.
        """
        if self._pid is not None and self._end is None:
            for pid in proc.tree(proc.Threads(self._pid)):
                _signal(pid, signal.SIGKILL)

    def kill(self, *, wait_s: float = 0.0) -> None:
        """End the process and everything it started; idempotent, and safe if it has ended.

        `wait_s`: longest wait for the kernel to tear it down (a GPU's context takes time)."""
        if self._stdout < 0:
            return
        with contextlib.suppress(Ended, ZygoteError):
            self.wait_ready()
            self._take_notes()
            self.start_kill()
            while readable(self._notes, timeout_s=wait_s):
                self._take_note()  # until it raises Ended
        for end in (self._channel, self._notes):
            end.close()
        self.close_proc_files()
        os.close(self._stdout)
        self._stdout = -1

    def __enter__(self) -> ConfinedProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
