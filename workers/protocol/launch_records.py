"""A profiled call as a list of launches: rows of fixed size that a candidate's
process writes and the referee reads.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable
from typing import NamedTuple

from workers.protocol import control_channel

ORIGINS = ("unknown", "triton", "extension", "inductor", "torch", "transfer")
"""Origins of a launch (app.domain.kernel_profile.KernelRow.origin); a row has the index."""

ROW = struct.Struct("<128sQQQQIIIIii6I")
"""name, start and duration in nanoseconds, modelled work in bytes, FLOPs of the product, call,
operator, origin, stream, registers, shared bytes, grid, block.  −1, and a grid of zeros, stand for
unknown values.
"""

MOST = control_channel.LAUNCHES_BYTES // ROW.size
"""Most launches that are kept, from the first on."""

Three = tuple[int, int, int]


class Launch(NamedTuple):
    """One kernel, copy or fill on the device."""

    name: str
    origin: str
    start_ns: int = 0
    """Nanoseconds from the start of the profiled call."""
    duration_ns: int = 0
    stream: int = 0
    grid: Three | None = None
    block: Three | None = None
    """Threads of a block, by dimension."""
    registers: int | None = None
    """Registers of one thread."""
    shared_bytes: int | None = None
    """Shared memory of one block."""
    work_bytes: int = 0
    """Work on the CPU device: bytes moved, or the bytes that a GPU moves in the time of the
    arithmetic (workers.backends.recording.library_work).
    """
    call: int = 0
    """Index of the profiled call, from 0."""
    product_flops: int = 0
    """FLOPs of the library's matrix product or convolution that it belongs to; 0 for others."""
    operator: int = 0
    """Number of that operator in the call: launches of one product have the same."""


def packed(launches: Iterable[Launch]) -> bytes:
    """Rows of the first `MOST`."""
    return b"".join(map(_row, list(launches)[:MOST]))


def _row(launch: Launch) -> bytes:
    registers, shared = (
        -1 if value is None else value for value in (launch.registers, launch.shared_bytes)
    )
    return ROW.pack(
        launch.name.encode()[:127],
        launch.start_ns,
        launch.duration_ns,
        launch.work_bytes,
        launch.product_flops,
        launch.call,
        launch.operator,
        ORIGINS.index(launch.origin),
        launch.stream,
        registers,
        shared,
        *(launch.grid or (0, 0, 0)),
        *(launch.block or (0, 0, 0)),
    )


def read(mailbox: mmap.mmap, count: int) -> list[Launch]:
    """The first `count` rows, as reported by the process; an invalid origin counts as unknown."""
    at = range(
        control_channel.LAUNCHES_AT,
        control_channel.LAUNCHES_AT + min(count, MOST) * ROW.size,
        ROW.size,
    )
    return [_launch(*ROW.unpack_from(mailbox, each)) for each in at]


def _launch(
    name: bytes,
    start: int,
    duration: int,
    work: int,
    flops: int,
    call: int,
    operator: int,
    origin: int,
    stream: int,
    registers: int,
    shared: int,
    *sizes: int,
) -> Launch:
    grid, block = (sizes[0], sizes[1], sizes[2]), (sizes[3], sizes[4], sizes[5])
    return Launch(
        name=control_channel.field_text(name),
        origin=ORIGINS[origin] if origin < len(ORIGINS) else ORIGINS[0],
        start_ns=start,
        duration_ns=duration,
        stream=stream,
        grid=grid if any(grid) else None,
        block=block if any(block) else None,
        registers=registers if registers >= 0 else None,
        shared_bytes=shared if shared >= 0 else None,
        work_bytes=work,
        call=call,
        product_flops=flops,
        operator=operator,
    )


def busy_ns(launches: Iterable[Launch]) -> int:
    """Nanoseconds for which at least one launch ran; launches on several streams may overlap."""
    busy, until = 0, 0
    for launch in sorted(launches, key=lambda each: each.start_ns):
        end = launch.start_ns + launch.duration_ns
        busy += max(0, end - max(until, launch.start_ns))
        until = max(until, end)
    return busy
