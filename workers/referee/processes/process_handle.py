"""Confined processes with their mailboxes, driven by commands.  Sessions share a
process: process_session.py.
"""

from __future__ import annotations

import json
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

import torch

from workers.protocol import control_channel, problem_spec, shared_memory
from workers.protocol.control_channel import Command, ReplyCode
from workers.referee.host.device_lock import DeviceLock, GoApart
from workers.referee.processes.mapped_memory import MappedMemory
from workers.sandbox.confined_process import ConfinedProcess
from workers.sandbox.process_errors import BrokenProtocolError, Ended, TimedOut

NO_SEED = bytes(32)

SLOW_S = 0.05
"""Seconds from which on a request to a reference, or the wait for another evaluation's
request, must not keep timers waiting.
"""

LOOK_S = 0.25
"""Seconds between looks at whether a first call has launched everything."""

BUSY = "its first call kept the device busy for 10 s while all other work was paused"
"""Message about a first call that is ended because the device's part of it takes too long."""

MAX_SEGMENT_BYTES = 1 << 40
"""Largest allocation that a candidate may tell of: more than any device has."""
MAX_SEGMENTS = 4096
"""Most mapped pieces of a process's memory; torch makes pieces of 2 MiB and 64 MB."""

_REPLY_CODES = frozenset(map(int, ReplyCode))


class FailedError(Exception):
    """The process answered that the command failed."""

    def __init__(self, outcome: ReplyCode, text: str) -> None:
        """`text`: a sentence, then a log."""
        self.outcome = outcome
        self.message, _, self.log = text.partition("\n")
        super().__init__(self.message)


PROCESS_ERRORS = (FailedError, Ended, TimedOut, BrokenProtocolError)
"""Errors that a confined process causes, by its answer or by giving none.  Any other
is a fault of the referee.
"""


@contextmanager
def decoding() -> Iterator[None]:
    """Context in which a process's answer is decoded: every error of that is the
    answer's.  It encloses no other code.
    """
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise BrokenProtocolError(f"malformed answer: {error}"[:500]) from error


class ProcessHandle:
    """A confined process and its mailbox; `close` ends both."""

    def __init__(self, process: ConfinedProcess, device: torch.device) -> None:
        """Takes ownership of the process; arenas are made on `device`."""
        self.process = process
        self.device = device
        self.described: set[int] = set()
        """Cases that the reference has described; 0 for a problem with a model."""
        self.estimates: dict[int, int] = {}
        """By case, the reference's estimate of the device memory that a session
        takes until it is described.
        """
        self.lock = threading.RLock()
        """Held from a request to its answer, or longer by a thread that needs no other
        request between two of its own.
        """
        self.device_lock: DeviceLock | None = None
        """Lock of the device, which a thread that checks does not keep from timers while it waits
        for this process alone; None if its requests are short, or timed.
        """
        self.sessions = 0
        """Evaluations that use the process; counted for a reference's process
        (reference_pool.py).
        """
        self.mappings_dropped = 0
        """How often all mappings of the process's memory have been dropped."""
        self._sequence = 0
        self._mailbox_fd = shared_memory.host_file("mailbox", control_channel.MAILBOX_BYTES)
        self.mailbox = mmap.mmap(self._mailbox_fd, control_channel.MAILBOX_BYTES)
        self._mapped = MappedMemory(device)

    def ask(
        self,
        command: Command,
        timeout_s: float,
        *,
        session: int = 0,
        a: int = 0,
        b: int = 0,
        c: int = 0,
        seed: bytes = NO_SEED,
        fd: int | None = None,
        slow: GoApart | None = None,
    ) -> tuple[int, int]:
        """Send a command and wait for its answer.  Returns busy nanoseconds and the
        number of text bytes.

        Raises FailedError (the command failed), Ended, TimedOut, BrokenProtocolError
        (malformed answer).
        """
        with self.lock:
            self.post(command, session, a, b, c, seed, fd)
            self.process.thaw()
            if slow is None or timeout_s <= SLOW_S:
                return self._take_patiently(timeout_s)
            try:
                return self.take(SLOW_S)
            except TimedOut:
                slow(self.process)
                return self.take(timeout_s - SLOW_S)

    def _take_patiently(self, timeout_s: float) -> tuple[int, int]:
        """The answer to the posted request, as `take`.  If a timer waits meanwhile, and no other
        evaluation uses this process, the request goes on apart.
        """
        lock = self.device_lock
        until = time.monotonic() + timeout_s
        while lock is not None and time.monotonic() + SLOW_S < until:
            try:
                return self.take(SLOW_S)
            except TimedOut:
                if lock.obstructed and self.sessions == 1:
                    with lock.apart_meanwhile(self.process):
                        return self.take(max(0.0, until - time.monotonic()))
        return self.take(max(0.0, until - time.monotonic()))

    @contextmanager
    def reserved(self, slow: GoApart | None) -> Iterator[None]:
        """Hold the lock.  `slow` is called if another evaluation's request delays it."""
        if slow is None or not self.lock.acquire(timeout=SLOW_S):
            if slow is not None:
                slow(None)
            self.lock.acquire()
        try:
            yield
        finally:
            self.lock.release()

    def post(
        self,
        command: Command,
        session: int,
        a: int,
        b: int,
        c: int,
        seed: bytes = NO_SEED,
        fd: int | None = None,
    ) -> None:
        """Send a command; the caller holds the lock until it has received the answer."""
        message = self.message(command, session, a, b, c, seed)
        self.process.send(message, () if fd is None else (fd,))

    def message(
        self, command: Command, session: int, a: int, b: int, c: int, seed: bytes = NO_SEED
    ) -> bytes:
        """The bytes of the next request, to be sent by another process."""
        self._sequence += 1
        return control_channel.REQUEST.pack(command, self._sequence, session, a, b, c, seed)

    def take(self, timeout_s: float, spin_s: float = 0.0) -> tuple[int, int]:
        """The answer to the posted request; see `ask`, and ConfinedProcess.receive for `spin_s`."""
        return self.read(self.process.receive(control_channel.REPLY.size, timeout_s, spin_s=spin_s))

    def take_first(
        self, timeout_s: float, computing_s: float, look: Callable[[], None]
    ) -> tuple[int, int]:
        """The answer to a posted RUN that may compile, as `take`.  `look` is called `computing_s`
        seconds after the process has said that only the device's part is left; until then every
        `computing_s` seconds, because the process may withhold that, or wait for the device to load
        a second kernel.  An exception of `look` ends the wait.
        """
        spent_s, looks_s = 0.0, computing_s
        is_queued = False
        while spent_s < timeout_s:
            # The process's own statement that the device's part is left defers one look.
            if not is_queued and self.mailbox[control_channel.QUEUED_AT]:
                is_queued, looks_s = True, spent_s + computing_s
            part_s = min(LOOK_S, timeout_s - spent_s)
            try:
                return self.take(part_s)
            except TimedOut:
                spent_s += part_s
            if looks_s <= spent_s < timeout_s:
                looks_s += computing_s
                look()
        raise TimedOut

    def read(self, reply: bytes) -> tuple[int, int]:
        """Values of an answer; see `ask`."""
        outcome, sequence, number, text = control_channel.REPLY.unpack(reply)
        if sequence != self._sequence:
            raise BrokenProtocolError(
                f"expected the answer to request {self._sequence}, got one to {sequence}"
            )
        if outcome != ReplyCode.DONE:
            if outcome not in _REPLY_CODES:
                raise BrokenProtocolError(f"expected an outcome, got {outcome}")
            raise FailedError(ReplyCode(outcome), control_channel.get_text(self.mailbox, text))
        return number, text

    def load_reference(
        self,
        source: bytes,
        entry_point: str,
        timeout_s: float,
        *,
        by_cases: bool = False,
        slow: GoApart | None = None,
    ) -> None:
        """Make the reference's shim execute the problem."""
        self.mailbox[: len(source)] = source
        name = entry_point.encode()
        self.mailbox[control_channel.SPEC_AT : control_channel.SPEC_AT + len(name)] = name
        self.ask(
            Command.LOAD,
            timeout_s,
            a=len(source),
            b=len(name),
            c=by_cases,
            fd=self._mailbox_fd,
            slow=slow,
        )

    def load_candidate(
        self,
        source: bytes,
        spec: problem_spec.ProblemSpec,
        entry_point: str,
        backend: str,
        timeout_s: float,
    ) -> None:
        """Make the candidate's shim execute the source."""
        fields = {"spec": asdict(spec), "entry_point": entry_point, "backend": backend}
        data = json.dumps(fields).encode()
        self.mailbox[: len(source)] = source
        self.mailbox[control_channel.SPEC_AT : control_channel.SPEC_AT + len(data)] = data
        self.ask(Command.LOAD, timeout_s, a=len(source), b=len(data), fd=self._mailbox_fd)

    def load_builder(self, source: bytes, notes: bytes, timeout_s: float) -> None:
        """Make the builder's shim execute the source.  `notes`: how its kernels are launched."""
        self.mailbox[: len(source)] = source
        self.mailbox[control_channel.NOTES_AT : control_channel.NOTES_AT + len(notes)] = notes
        self.ask(Command.LOAD, timeout_s, a=len(source), b=len(notes), fd=self._mailbox_fd)

    def map_segment(self, address: int, timeout_s: float) -> None:
        """Map the piece of the process's device memory around `address`, unless it is mapped.

        The process reports base and size.  A false report shows other bytes of the same process,
        which then are its answer.  Raises BrokenProtocolError if nothing can be mapped.
        """
        if self.mapped(address, 1) is not None:
            return
        fd = None
        try:
            with self.lock:
                self.post(Command.SEGMENT, 0, address, 0, 0)
                self.process.thaw()
                reply, fd = self.process.receive_with_fd(control_channel.REPLY.size, timeout_s)
                base, size = self.read(reply)
            if fd is None:
                raise BrokenProtocolError("expected a descriptor of device memory, got none")
            if (
                not base <= address < base + size
                or size > MAX_SEGMENT_BYTES
                or len(self._mapped) >= MAX_SEGMENTS
            ):
                raise BrokenProtocolError(
                    f"no such piece of device memory: {size:,} bytes at {base:#x}"
                )
            self._mapped.add(base, size, fd)
        except shared_memory.OutOfDeviceMemoryError:  # the referee's, for the mapping itself
            raise
        except shared_memory.CudaDriverError as error:
            message = f"the shared descriptor is no device memory of {size:,} bytes: {error}"
            raise BrokenProtocolError(message) from error
        finally:
            if fd is not None:
                os.close(fd)

    def mapped(self, address: int, size: int) -> torch.Tensor | None:
        """The process's memory from `address` on, contiguous, at most `size` bytes;
        None if it is not mapped.
        """
        return self._mapped.at(address, size)

    def unmap_segments(self) -> None:
        """Unmap everything that `map_segment` mapped."""
        self.mappings_dropped += 1
        self._mapped.clear()

    def rest(self) -> None:
        """Mark the process as idle."""
        self.process.close_proc_files()

    def close(self, *, wait_s: float = 0.0) -> None:
        """Kill the process, wait up to `wait_s` for its end, and release the memory."""
        self.process.kill(wait_s=wait_s)
        os.close(self._mailbox_fd)
        self.mailbox.close()
        self.unmap_segments()
