"""Sessions: one evaluation's share of a process: an arena, and access to its outputs.

A candidate's process has one session; a reference's process has one for each
evaluation of its problem in flight.
"""

from __future__ import annotations

import json
import math
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch

from workers.protocol import control_channel, layout, problem_spec, shared_memory
from workers.protocol.control_channel import AblationMode, Command, Delivering, packed_modes
from workers.referee.host.device_lock import DeviceLock, GoApart
from workers.referee.processes.process_handle import (
    MAX_SEGMENT_BYTES,
    NO_SEED,
    ProcessHandle,
    decoding,
)
from workers.referee.processes.snapshot import Shared, Snapshot, in_words
from workers.sandbox.confined_process import StopwatchInterface
from workers.sandbox.process_errors import BrokenProtocolError

SPIN_S = 0.05
"""Seconds that the stopwatch, or the referee with the device held, busy-waits for the end of a
block; for longer blocks a late wake-up does not matter.
"""


class FirstCall(NamedTuple):
    """Limits of a call that may compile; see ProcessHandle.take_first."""

    computing_s: float
    look: Callable[[], None]


SHORTEST_RUN = 4
"""Outputs at equal distances from which on one copy serves all; of fewer, separate
copies cost no more.
"""


class Session:
    """One evaluation's share of a process."""

    def __init__(self, handle: ProcessHandle, number: int = 0) -> None:
        """A session without an arena at first."""
        self.handle = handle
        self.process = handle.process
        self.delivering = Delivering.COPY
        """How timed blocks deliver outputs; see `survey` in timing/output_mapping.py."""
        self.mapping = 0
        """`ProcessHandle.mappings_dropped` when this session's outputs were mapped."""
        self.mapped_calls = control_channel.POINTERS_BYTES
        """Number of calls with outputs that fit into memory shared by the process."""
        self.matching_constants = 0
        """Bits: constants of the spec that the model has, and those that it has no place for
        (control_channel.ABSENT_BIT), as its process reports."""
        self.unmatched = ""
        """Weights of the problem that the candidate's model has no place for, as its
        process reports.
        """
        self.arena: problem_spec.Arena | None = None
        self.requests = 0
        """Number of requests so far: data that the process wrote for one request may
        be gone after the next.
        """
        self._number = number
        self._memory: torch.Tensor | None = None
        """All bytes of the arena; the tensor keeps the shared memory."""
        self._read: torch.cuda.Event | None = None

    @property
    def has_lost_mapping(self) -> bool:
        """True if the referee's mapping of outputs that stay in place has been dropped since it was
        made.  The process copies such outputs into slots, which takes time in timed blocks.
        """
        return self.delivering == Delivering.HOLD and self.mapping != self.handle.mappings_dropped

    def ask(self, command: Command, timeout_s: float, **numbers: Any) -> tuple[int, int]:
        """See ProcessHandle.ask."""
        self.requests += 1
        return self.handle.ask(command, timeout_s, session=self._number, **numbers)

    def replace_launches(self, timeout_s: float, *modes: AblationMode) -> tuple[int, int]:
        """Make the candidate replace the launches of its kernels as `modes` say (Command.ABLATE);
        returns how many were left out so far, and `Recorder.mapped`.
        """
        return self.ask(Command.ABLATE, timeout_s, a=packed_modes(modes), b=len(modes))

    def estimate_bytes(self, seed: bytes, timeout_s: float) -> int:
        """The reference's estimate of the device memory that describing the problem takes; 0 if
        unknown.
        """
        return self.ask(Command.ESTIMATE, timeout_s, seed=seed)[0]

    def ask_for_text(self, command: Command, timeout_s: float, **numbers: Any) -> tuple[int, str]:
        """See `ask`; returns the number and the text of the answer."""
        with self.handle.lock:
            number, length = self.ask(command, timeout_s, **numbers)
            return number, control_channel.get_text(self.handle.mailbox, length)

    def describe(
        self,
        seed: bytes,
        timeout_s: float,
        case: int = 0,
        *,
        sole: bool = True,
        slow: GoApart | None = None,
    ) -> problem_spec.ProblemSpec:
        """Make the reference build its model under `seed`, or select a case, and
        describe its inputs and outputs.

        `sole`: no other evaluation uses the device's memory meanwhile.
        """
        with self.handle.reserved(slow):
            size, _ = self.ask(Command.DESCRIBE, timeout_s, a=case, b=sole, seed=seed, slow=slow)
            first, count = control_channel.SPEC_AT, min(size, control_channel.SPEC_BYTES)
            text = self.handle.mailbox[first : first + count]
        with decoding():
            spec = problem_spec.ProblemSpec.checked(json.loads(text))
        self.handle.described.add(case)
        return spec

    def share_arena(
        self,
        arena: problem_spec.Arena,
        size: int,
        timeout_s: float,
        *,
        seed: bytes = NO_SEED,
        prefix: torch.Tensor | None = None,
        device_lock: DeviceLock | None = None,
    ) -> None:
        """Give the process an arena of `size` bytes that begins with `prefix`:
        parameters and constructor arguments.

        `device_lock`: held while the arena is made, not while the process constructs its
        model from it, which may take long.
        """
        with device_lock.shared() if device_lock is not None else nullcontext():
            fd, memory = shared_memory.create(self.handle.device, size)
            self.arena, self._memory = arena, memory.whole
            if prefix is not None:
                self._memory[: len(prefix)].copy_(prefix)
            synchronize(self.handle.device)
        try:
            inputs, expected = arena.slots
            with (
                nullcontext()
                if device_lock is None
                else device_lock.apart(self.process, paused_after_s=math.inf)
            ):
                self.matching_constants, self.unmatched = self.ask_for_text(
                    Command.ARENA, timeout_s, a=inputs, b=expected, seed=seed, fd=fd
                )
        finally:
            os.close(fd)

    def region(self, region: layout.Region, first: int, count: int) -> torch.Tensor:
        """Memory of some slots of a region, uint8 (count, slot_bytes): shared, so it
        may change at any time.

        In one operation of torch: each gives Python's lock to the other evaluations' threads.
        """
        assert self._memory is not None
        size = region.slot_bytes
        return self._memory.as_strided((count, size), (size, 1), region.start + first * size)

    def note_readers(self) -> None:
        """Note that all requests sent to the device so far read the arena; see
        `wait_for_readers`.
        """
        if self.handle.device.type == "cuda":
            self._read = self._read or torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._read.record()

    def wait_for_readers(self) -> None:
        """Wait until all noted reads have ended, before the process writes."""
        if self._read is not None:
            self._read.synchronize()

    @property
    def prefix(self) -> torch.Tensor:
        """Parameters and constructor arguments in the arena."""
        assert self.arena is not None
        assert self._memory is not None
        return self._memory[: self.arena.inputs.start]

    @contextmanager
    def copying_outputs(self) -> Iterator[None]:
        """Context in which outputs are copied into their slots, however they are delivered else."""
        delivering, self.delivering = self.delivering, Delivering.COPY
        try:
            yield
        finally:
            self.delivering = delivering

    def timed_run(
        self,
        first: int,
        count: int,
        delivering: Delivering,
        timeout_s: float,
        stopwatch: StopwatchInterface | None = None,
        *,
        first_call: FirstCall | None = None,
        spins: bool = False,
    ) -> tuple[int, int]:
        """Run `count` calls; returns nanoseconds of wall time and of claimed time.  Exact if a
        stopwatch measures. `first_call`: limits of a call that may compile; `spins`: the end of a
        short block is waited for without sleeping, because the device is held.

        The process is frozen before and after.  The request is already in its channel when
        the clock starts and the process is woken, so none of its threads can do work that
        depends on the inputs beforehand.
        """
        self.requests += 1
        handle = self.handle
        with handle.lock:
            handle.process.freeze()
            message = handle.message(Command.RUN, self._number, first, count, delivering)
            if stopwatch is not None:
                wall_ns, reply = handle.process.timed(
                    stopwatch, message, control_channel.REPLY.size, timeout_s, SPIN_S
                )
                return wall_ns, handle.read(reply)[0]
            handle.mailbox[control_channel.QUEUED_AT] = 0
            handle.process.send(message)
            began = time.perf_counter_ns()
            handle.process.thaw()
            answer = (
                handle.take(timeout_s, SPIN_S if spins else 0.0)
                if first_call is None
                else handle.take_first(timeout_s, *first_call)
            )
            return time.perf_counter_ns() - began, answer[0]

    def pointers(self, count: int) -> list[int]:
        """Addresses of the outputs of the last run, as the process reports them: one
        per leaf, call by call.
        """
        assert self.arena is not None
        number = count * len(self.arena.outputs.leaves)
        return list(
            struct.unpack_from(f"<{number}Q", self.handle.mailbox, control_channel.POINTERS_AT)
        )

    def delivered(self, first: int, count: int, pointers: list[int]) -> Snapshot:
        """A private copy of the outputs of `count` calls, read from the addresses in `pointers`,
        or from the slots if an address is 0 or the list is empty.  Raises BrokenProtocolError for
        an address that is not mapped.
        """
        assert self.arena is not None
        region = self.arena.outputs
        slots = self.region(region, first, count)
        if not any(pointers) and not self.arena.compared_inputs:
            copy = slots.clone()
            return Snapshot(copy, [in_words(copy, slots)], [])
        sizes = list(map(layout.size_of, region.leaves))
        # Gaps between leaves belong to no leaf; the same zeros let two copies be
        # compared in one go.
        copy = (
            torch.empty_like(slots) if sum(sizes) == region.slot_bytes else torch.zeros_like(slots)
        )
        runs: list[Shared] = []
        rest: list[Shared] = []
        pointers = pointers or [0] * count * len(sizes)
        returned = len(sizes) - len(self.arena.compared_inputs)
        if self.arena.compared_inputs:
            given = self.region(self.arena.inputs, first, count)
            places = zip(region.offsets[returned:], sizes[returned:], strict=True)
            for index, (offset, size) in zip(self.arena.compared_inputs, places, strict=True):
                at = self.arena.inputs.offsets[index]
                runs.append(in_words(copy[:, offset : offset + size], given[:, at : at + size]))
        for leaf, (offset, size) in enumerate(
            zip(region.offsets[:returned], sizes[:returned], strict=True)
        ):
            ours, theirs = (rows[:, offset : offset + size] for rows in (copy, slots))
            addresses = pointers[leaf : count * len(sizes) : len(sizes)]
            for begin, end, source in _runs(self.handle, addresses, size):
                if source is not None:
                    runs.append(in_words(ours[begin:end], source))
                    continue
                for target, slot, address in zip(
                    ours[begin:end], theirs[begin:end], addresses[begin:end], strict=True
                ):
                    rest += _pieces(self.handle, target, address) if address else [(target, slot)]
        pairs = [*runs, *rest]
        if pairs:  # in one call: each takes some 10 µs, with the device held
            torch._foreach_copy_([target for target, _ in pairs], [source for _, source in pairs])
        return Snapshot(copy, runs, rest)

    def close(self, timeout_s: float) -> None:
        """Release the arena; a reference forgets the session.  Memory that it gives back is free
        once the referee has unmapped it.
        """
        self._memory = None
        with self.handle.lock:
            given_back, _ = self.ask(Command.RELEASE, timeout_s)
            if given_back:
                self.handle.unmap_segments()


def _runs(
    handle: ProcessHandle, addresses: list[int], size: int
) -> Iterator[tuple[int, int, torch.Tensor | None]]:
    """Runs of consecutive calls: first call, end, and the memory (calls, size) of their equally
    spaced outputs; None in its place if the run is too short.
    """
    begin = 0
    while begin < len(addresses):
        address, end, step = addresses[begin], *_equally_spaced(addresses, begin)
        shown = (
            handle.mapped(address, MAX_SEGMENT_BYTES)
            if address and end - begin >= SHORTEST_RUN
            else None
        )
        if shown is not None:
            end = min(end, begin + max(1, (len(shown) - size) // step + 1))
        if shown is not None and end - begin >= SHORTEST_RUN:
            # `unfold` refuses to go beyond the memory that it is given, whatever was
            # calculated here.
            yield begin, end, shown[: (end - begin - 1) * step + size].unfold(0, size, step)
        else:
            yield begin, end, None
        begin = end


def _equally_spaced(addresses: list[int], begin: int) -> tuple[int, int]:
    """End of the run in which addresses ascend by a constant distance, and that
    distance; a run of one call otherwise.
    """
    step = addresses[begin + 1] - addresses[begin] if begin + 1 < len(addresses) else 0
    end = begin + 1
    while step > 0 and end < len(addresses) and addresses[end] - addresses[end - 1] == step:
        end += 1
    return end, step


def _pieces(handle: ProcessHandle, target: torch.Tensor, address: int) -> list[Shared]:
    """Pairs of target and source memory that copy the process's content from
    `address` on into `target`.
    """
    pieces, done = [], 0
    while done < len(target):
        source = handle.mapped(address + done, len(target) - done)
        if source is None:
            raise BrokenProtocolError(
                f"an output lies at {address + done:#x}, where nothing was shared"
            )
        pieces.append((target[done : done + len(source)], source))
        done += len(source)
    return pieces


def synchronize(device: torch.device) -> None:
    """Wait until the device has done everything that this process requested."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
