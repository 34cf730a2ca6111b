"""The heap of a side's process: where a model's objects lie, and the memory of tensors on the CPU.

Both sides of a benchmark run the same code, and must not differ by what their processes did before.

* What is allocated after much else has come and gone lies wherever something was freed.  A model of
  240 modules in such holes takes 5 to 8 % longer to call than one in fresh memory, and up to 39 %
  beside busy cores, because it is spread over more cache lines and pages.  A reference's process
  has a longer history than a candidate's: networks that launch some hundred operators seemed 2 to
  10 % faster as candidates (KernelBench's level 3, H200).  So both sides make their models after
  `Fillers` have filled the holes.
* glibc takes a large tensor's memory from the free end of the heap as long as that suffices, and
  asks the kernel otherwise, in each call anew.  A reference that had computed in fp64 took 10 ms
  for a ReLU of 78 MB, a candidate 43 ms.  So `lengthen` comes before each block.
"""

from __future__ import annotations

import ctypes
import gc
import os

POOL_BYTES, POOL_HEADER = 16 << 10, 48
"""A pool of CPython's pymalloc has objects of one size.  One without any is begun only if no other
pool has room for that size, so a pool filled from end to end tells that there are no holes.
"""

OBJECT_SIZES = range(48, 513, 16)
"""Sizes in bytes that Python's allocator distinguishes and that a model's objects have."""

CHUNK_SIZES = (*range(24, 1040, 16), *range(1048, 8192, 512))
"""Sizes in bytes of memory from glibc's malloc: one for each of its bins up to 1 KB."""

ROW_BYTES, LEAST_ROW = 4 << 10, 24
"""Chunks side by side, in bytes and in number, that are taken for memory without holes."""

MOST = 50_000
"""Most fillers of one size: a heap with more holes keeps the rest."""

_LARGEST = int(os.environ.get("MALLOC_MMAP_THRESHOLD_", 0)) - POOL_BYTES
_BLOCKS = int(os.environ.get("MALLOC_TRIM_THRESHOLD_", 0)) // _LARGEST // 2 if _LARGEST > 0 else 0
"""Size in bytes of the largest blocks of the heap, and how many make half of its free end."""

_ALIGNMENT = 16
_CHUNK_HEADER = 8

_libc = ctypes.CDLL(None)
_libc.malloc.argtypes, _libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
_libc.free.argtypes, _libc.free.restype = [ctypes.c_void_p], None


class Fillers:
    """Objects and chunks of memory that fill the holes, as long as they live."""

    def __init__(self) -> None:
        self._objects: list[list[bytes]] = []
        self._chunks: list[int] = []
        self.renew()

    def renew(self) -> None:
        """Fill the holes that there are now.  The last fillers are freed first: else the memory of
        each model that has ended would become fillers, and the heap would grow.
        """
        self._objects.clear()
        for chunk in self._chunks:
            _libc.free(chunk)
        gc.collect()  # frees the objects that Python keeps for use again, wherever they lie
        self._objects = [_objects(size) for size in OBJECT_SIZES]
        self._chunks = [chunk for size in CHUNK_SIZES for chunk in _chunks(size)]


def lengthen() -> None:
    """Let the heap end with half as much free memory as it keeps at most.  The memory is not
    touched.  Without limits in the environment (mallopt(3)) nothing happens.
    """
    blocks = [_libc.malloc(_LARGEST) for _ in range(_BLOCKS)]
    for block in blocks:
        _libc.free(block)


def trim() -> None:
    """Give all free memory back to the kernel."""
    _libc.malloc_trim(0)


def _objects(size: int) -> list[bytes]:
    """Objects of that size in bytes, until a whole pool of them lies side by side."""
    found: list[bytes] = []
    payload = size - b"".__sizeof__()
    row = (POOL_BYTES - POOL_HEADER) // size - 1
    last = in_a_row = 0
    while in_a_row < row and len(found) < MOST:
        one = bytes(payload)
        found.append(one)
        in_a_row = in_a_row + 1 if id(one) - last == size else 0
        last = id(one)
    return found


def _chunks(size: int) -> list[int]:
    """Addresses of chunks of that size in bytes, until some of them lie side by side."""
    distance = (size + _CHUNK_HEADER + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
    row = max(LEAST_ROW, ROW_BYTES // distance)
    found: list[int] = []
    last = in_a_row = 0
    while in_a_row < row and len(found) < MOST:
        address = _libc.malloc(size) or 0
        found.append(address)
        in_a_row = in_a_row + 1 if address - last == distance else 0
        last = address
    return found
