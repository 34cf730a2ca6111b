"""Device memory of another process, mapped into the referee: memory that is
contiguous there is contiguous here.

torch's expandable segments grow in pieces of 64 MB, or of 2 MiB for tensors of up to 1 MiB, and
each piece has its own descriptor.  If pieces were mapped to arbitrary addresses, the outputs of a
hundred calls would be fifty pieces, copied and compared one by one while the device is locked.  (Of
0.45 s spent timing calls of 25 µs with 1 MiB each, their blocks took 0.07 s; H200.)
"""

from __future__ import annotations

import bisect
from typing import NamedTuple

import torch

from workers.protocol import shared_memory

AREA_BYTES = 1 << 38
"""Size of the address ranges in which a process's memory is mirrored.  Reserving addresses is free;
torch reserves nine eighths of the device's memory for each of its segments.
"""

MOST_AREAS = 16
"""Most areas for one process.  The process itself reports its addresses, and the
referee's addresses are shared by all.
"""


class Extent(NamedTuple):
    """Contiguous memory."""

    base: int
    """First address in the process."""
    pieces: tuple[shared_memory.DeviceMemory, ...]
    memory: torch.Tensor
    """uint8, all of it."""

    @property
    def end(self) -> int:
        """Address after the last byte, in the process."""
        return self.base + len(self.memory)


class MappedMemory:
    """Mapped memory of one process."""

    def __init__(self, device: torch.device) -> None:
        """Without a mapping at first."""
        self._device = device
        self._areas: dict[int, shared_memory.Addresses] = {}
        self._extents: list[Extent] = []
        """Ordered by first address."""

    def __len__(self) -> int:
        """Number of mapped pieces."""
        return sum(len(extent.pieces) for extent in self._extents)

    def add(self, base: int, size: int, fd: int) -> None:
        """Map the process's memory from `base` on.  Raises CudaDriverError if it cannot be
        mapped, or the addresses are taken.
        """
        piece = shared_memory.attach_at(self._device, fd, size, self._place(base, size))
        index = bisect.bisect(self._extents, base, key=_base)
        around = self._extents[max(0, index - 1) : index + 1]
        before = tuple(it for it in around if (it.end, it.pieces[-1].end) == (base, piece.first))
        after = tuple(
            it for it in around if (it.base, it.pieces[0].first) == (base + size, piece.end)
        )
        pieces = (*_pieces(before), piece, *_pieces(after))
        for joined in (*before, *after):
            self._extents.remove(joined)
        found = Extent(
            before[0].base if before else base, pieces, shared_memory.in_one_piece(pieces)
        )
        bisect.insort(self._extents, found, key=_base)

    def _place(self, base: int, size: int) -> shared_memory.MemoryPosition | None:
        """Address in the referee; None for any address, if the memory crosses areas or
        the process has too many of them.
        """
        area, offset = divmod(base, AREA_BYTES)
        if offset + size > AREA_BYTES or (
            area not in self._areas and len(self._areas) >= MOST_AREAS
        ):
            return None
        if area not in self._areas:
            self._areas[area] = shared_memory.Addresses(AREA_BYTES)
        return shared_memory.MemoryPosition(self._areas[area], offset)

    def at(self, address: int, size: int) -> torch.Tensor | None:
        """The process's memory from `address` on, contiguous, at most `size` bytes;
        None if nothing is mapped there.
        """
        index = bisect.bisect_right(self._extents, address, key=_base) - 1
        if index < 0 or address >= self._extents[index].end:
            return None
        base, _, memory = self._extents[index]
        return memory[address - base : address - base + size]

    def clear(self) -> None:
        """Unmap everything once its last tensor is gone."""
        self._extents.clear()
        self._areas.clear()


def _base(extent: Extent) -> int:
    return extent.base


def _pieces(extents: tuple[Extent, ...]) -> tuple[shared_memory.DeviceMemory, ...]:
    return tuple(piece for extent in extents for piece in extent.pieces)
