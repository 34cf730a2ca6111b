"""Inputs of later calls, out of sight until their turn, on the CPU device.

A block's inputs lie in memory before its clock starts.  A model that finds them from its first call's address could
compute all calls at once, and the measured time would be throughput.  So the pages of later calls cannot be read:
a process that tries ends with a segmentation fault.  On a GPU a tensor's storage ends with its slot.

It does not guard against a process that asks the kernel for the pages itself (mprotect, /proc/self/mem)."""

from __future__ import annotations

import ctypes
import mmap

from workers.protocol import layout
from workers.protocol.shared_memory import Memory

_NONE, _ALL = 0, mmap.PROT_READ | mmap.PROT_WRITE

_mprotect = ctypes.CDLL(None, use_errno=True).mprotect
_mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Sight:
    """Input slots of an arena that can be read."""

    def __init__(self, memory: Memory, inputs: layout.Region) -> None:
        """All of them, as yet."""
        self._base = memory.whole.data_ptr() + inputs.start
        self._size = inputs.slot_bytes
        self._of_pages = self._base % mmap.PAGESIZE == 0 and self._size % mmap.PAGESIZE == 0
        """Not where pages are larger than the layout reckons with: then slots share them, and none can be hidden."""

    def hide(self, first: int, count: int) -> None:
        """Slots that cannot be read until they are shown."""
        self._set(first, count, _NONE)

    def show(self, first: int, count: int = 1) -> None:
        """Slots that can be read from here on."""
        self._set(first, count, _ALL)

    def _set(self, first: int, count: int, access: int) -> None:
        if count > 0 and self._of_pages and _mprotect(self._base + first * self._size, count * self._size, access):
            raise OSError(ctypes.get_errno(), "mprotect of input slots")
