"""Protection of the inputs of later calls until their turn, on the CPU device.

A block's inputs lie in memory before its clock starts.  A model that derives their addresses from
its first input's could compute all calls at once, and the measured time would be throughput.  So
the pages of later calls are unreadable: a process that reads them ends with a segmentation fault.
On a GPU a tensor's storage ends with its slot.

This does not guard against a process that changes the protection itself (mprotect, /proc/self/mem).
"""

from __future__ import annotations

import ctypes
import mmap

from workers.protocol import layout
from workers.protocol.shared_memory import Memory

_NONE, _ALL = 0, mmap.PROT_READ | mmap.PROT_WRITE

_mprotect = ctypes.CDLL(None, use_errno=True).mprotect
_mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class InputVisibility:
    """Readability of the input slots of an arena."""

    def __init__(self, memory: Memory, inputs: layout.Region) -> None:
        """All slots are readable at first."""
        self._base = memory.whole.data_ptr() + inputs.start
        self._size = inputs.slot_bytes
        self._can_hide = self._base % mmap.PAGESIZE == 0 and self._size % mmap.PAGESIZE == 0
        """False if the host's pages are larger than the layout assumes: then slots share pages."""

    def hide(self, first: int, count: int) -> None:
        """Make slots unreadable until `show`."""
        self._set(first, count, _NONE)

    def show(self, first: int, count: int = 1) -> None:
        """Make slots readable."""
        self._set(first, count, _ALL)

    def _set(self, first: int, count: int, access: int) -> None:
        if (
            count > 0
            and self._can_hide
            and _mprotect(self._base + first * self._size, count * self._size, access)
        ):
            raise OSError(ctypes.get_errno(), "mprotect of input slots")
