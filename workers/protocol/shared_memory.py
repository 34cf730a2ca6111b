"""Memory that two processes share by a file descriptor: anonymous files on the host,
physical allocations on a GPU.

A descriptor can be passed between process and mount namespaces (CUDA's older IPC handles cannot be
passed between process namespaces) and refers to exactly one allocation (an IPC handle into a
caching allocator includes its neighbours).
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import mmap
import os
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import torch


class Memory(Protocol):
    """Shared memory, viewed as tensors."""

    @property
    def whole(self) -> torch.Tensor:
        """All of the memory as uint8."""
        ...

    def view(self, offset: int, dtype: torch.dtype, count: int) -> torch.Tensor:
        """`count` elements from byte `offset` on, with a storage of their own: tools that copy
        whole storages (Triton's interpreter does) must not copy everything.
        """
        ...


def create(device: torch.device, size: int) -> tuple[int, Memory]:
    """New memory of at least `size` bytes: a descriptor to be sent (the caller closes
    it), and this process's mapping.
    """
    if device.type == "cuda":
        return _create_on_gpu(device, size)
    fd = host_file("arena", size)
    return fd, HostMemory(fd, size)


def attach(device: torch.device, fd: int, size: int) -> Memory:
    """Map memory that another process created with the same size."""
    return attach_at(device, fd, size, None) if device.type == "cuda" else HostMemory(fd, size)


def attach_at(
    device: torch.device, fd: int, size: int, place: MemoryPosition | None
) -> DeviceMemory:
    """Map memory on a GPU that another process created, at `place` or, if None, at any address.
    Raises CudaDriverError, also if the addresses are in use.
    """
    return DeviceMemory(device, _import(fd), size, place)


def in_one_piece(pieces: tuple[DeviceMemory, ...]) -> torch.Tensor:
    """Pieces that are mapped to consecutive addresses (`first`, `end`) as one tensor of uint8."""
    start = pieces[0].first
    span = _Span(pieces, start, pieces[-1].end - start)
    return torch.as_tensor(span, device=pieces[0].device)


class Segment(NamedTuple):
    """An allocation of device memory, by its owner's addresses."""

    base: int
    size: int


def share_segment(address: int) -> tuple[int, Segment]:
    """A descriptor (the caller closes it) of this process's physical allocation around `address`.

    Only memory allocated for sharing has one: that of torch's expandable segments, and of
    workers/shims/device_malloc.c.  Raises CudaDriverError."""
    base, size, handle, fd = (
        ctypes.c_ulonglong(),
        ctypes.c_size_t(),
        ctypes.c_ulonglong(),
        ctypes.c_int(),
    )
    _driver(
        "cuMemGetAddressRange_v2",
        ctypes.byref(base),
        ctypes.byref(size),
        ctypes.c_ulonglong(address),
    )
    _driver("cuMemRetainAllocationHandle", ctypes.byref(handle), ctypes.c_void_p(address))
    try:
        _driver(
            "cuMemExportToShareableHandle",
            ctypes.byref(fd),
            handle,
            _POSIX_FD,
            ctypes.c_ulonglong(0),
        )
    finally:
        _driver("cuMemRelease", handle)
    return fd.value, Segment(base.value, size.value)


@functools.cache
def _release_counter() -> ctypes.c_ulonglong:
    try:
        return ctypes.c_ulonglong.in_dll(ctypes.CDLL(None), "device_memory_releases")
    except ValueError:  # without workers/shims/device_malloc.c
        return ctypes.c_ulonglong(0)


def releases() -> int:
    """Device allocations that this process has given back so far; 0 if they are not counted.
    torch's allocator gives some back by itself when memory runs out.
    """
    return int(_release_counter().value)


def allocation_number(address: int) -> int:
    """Number of the device allocation around an address among all of this process; 0 if there is
    none, or if they are not counted.
    """
    number = getattr(ctypes.CDLL(None), "device_memory_number", None)
    if number is None:
        return 0
    number.restype = ctypes.c_ulonglong
    return int(number(ctypes.c_ulonglong(address)))


def host_file(name: str, size: int) -> int:
    """A descriptor of anonymous memory.

    Its size is sealed: otherwise another holder of the descriptor could shrink it, and this
    process's next access would be fatal.
    """
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


class HostMemory:
    """An anonymous file, mapped with all pages populated, so that no timed call has page faults."""

    def __init__(self, fd: int, size: int) -> None:
        """The caller keeps the ownership of `fd`."""
        self._map = mmap.mmap(fd, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)

    @property
    def whole(self) -> torch.Tensor:
        """See Memory."""
        return torch.frombuffer(self._map, dtype=torch.uint8)

    def view(self, offset: int, dtype: torch.dtype, count: int) -> torch.Tensor:
        """See Memory."""
        return torch.frombuffer(self._map, dtype=dtype, count=count, offset=offset)


# Structures and constants of cuda.h (driver API, virtual memory management).
_PINNED, _POSIX_FD, _ON_DEVICE, _READ_WRITE = 1, 1, 1, 3


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 32),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class Kept:
    """New memory together with its descriptor, which is closed when the object is deleted."""

    def __init__(self, device: torch.device, size: int) -> None:
        """Allocate at least `size` bytes."""
        self.fd, self.memory = create(device, size)

    def __del__(self) -> None:
        """Close the descriptor, if the allocation succeeded."""
        if hasattr(self, "fd"):
            os.close(self.fd)


class CudaDriverError(RuntimeError):
    """Error: a call of the CUDA driver failed."""


class OutOfDeviceMemoryError(CudaDriverError):
    """Error: a call of the CUDA driver failed because memory ran out."""


_OUT_OF_MEMORY = 2
"""CUDA_ERROR_OUT_OF_MEMORY."""


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _driver(name: str, *arguments: Any) -> None:
    library = _library()
    code = getattr(library, name)(*arguments)
    if code:
        text = ctypes.c_char_p()
        library.cuGetErrorString(code, ctypes.byref(text))
        said = text.value.decode() if text.value else "unknown"
        kind = OutOfDeviceMemoryError if code == _OUT_OF_MEMORY else CudaDriverError
        raise kind(f"{name}: {said} (error {code})")


def _properties(device: torch.device) -> _Properties:
    location = _Location(_ON_DEVICE, device.index or 0)
    return _Properties(type=_PINNED, handle_types=_POSIX_FD, location=location)


def _rounded(device: torch.device, size: int) -> int:
    """Size rounded up to the granularity of allocations (2 MiB)."""
    unit = _granularity(device)
    return -(-size // unit) * unit


@functools.cache
def _granularity(device: torch.device) -> int:
    unit = ctypes.c_size_t()
    _driver(
        "cuMemGetAllocationGranularity", ctypes.byref(unit), ctypes.byref(_properties(device)), 0
    )
    return unit.value


def _create_on_gpu(device: torch.device, size: int) -> tuple[int, Memory]:
    torch.cuda.current_stream(device).synchronize()  # the context must exist and be current
    handle, fd = ctypes.c_ulonglong(), ctypes.c_int()
    rounded = ctypes.c_size_t(_rounded(device, size))
    arguments = (
        ctypes.byref(handle),
        rounded,
        ctypes.byref(_properties(device)),
        ctypes.c_ulonglong(0),
    )
    try:
        _driver("cuMemCreate", *arguments)
    except CudaDriverError:
        torch.cuda.empty_cache()  # memory that torch keeps for later is missing to other processes
        _driver("cuMemCreate", *arguments)
    try:
        _driver(
            "cuMemExportToShareableHandle",
            ctypes.byref(fd),
            handle,
            _POSIX_FD,
            ctypes.c_ulonglong(0),
        )
    except CudaDriverError:
        _driver("cuMemRelease", handle)
        raise
    try:
        return fd.value, DeviceMemory(device, handle, size)
    except CudaDriverError:
        os.close(fd.value)  # which keeps the memory
        raise


def _import(fd: int) -> ctypes.c_ulonglong:
    torch.cuda.current_stream().synchronize()
    handle = ctypes.c_ulonglong()
    _driver("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), _POSIX_FD)
    return handle


class Addresses:
    """A reserved range of a GPU's virtual addresses.  Mappings in it keep it alive."""

    def __init__(self, size: int) -> None:
        """`size`: bytes, a multiple of the granularity of allocations."""
        self._size = ctypes.c_size_t(size)
        self._first = ctypes.c_ulonglong()
        zero = ctypes.c_ulonglong(0)
        _driver(
            "cuMemAddressReserve",
            ctypes.byref(self._first),
            self._size,
            ctypes.c_size_t(0),
            zero,
            zero,
        )

    @property
    def first(self) -> int:
        """Address of the first byte."""
        return self._first.value

    def __del__(self) -> None:
        """Free the addresses, if they could be reserved; nothing is mapped there any more."""
        if self._first.value:
            _driver("cuMemAddressFree", self._first, self._size)


class MemoryPosition(NamedTuple):
    """A position in a range of addresses."""

    addresses: Addresses
    offset: int
    """Bytes from the start of the range."""


class DeviceMemory:
    """A physical allocation of the GPU, mapped for reading and writing."""

    def __init__(
        self,
        device: torch.device,
        handle: ctypes.c_ulonglong,
        size: int,
        place: MemoryPosition | None = None,
    ) -> None:
        """Takes ownership of the handle.  `place`: address of the mapping, any if None."""
        self.device = device
        self._rounded = _rounded(device, size)
        self._is_mapped = False
        rounded, zero = ctypes.c_size_t(self._rounded), ctypes.c_ulonglong(0)
        try:
            self._addresses, offset = place or MemoryPosition(Addresses(self._rounded), 0)
            self._address = ctypes.c_ulonglong(self._addresses.first + offset)
            _driver("cuMemMap", self._address, rounded, ctypes.c_size_t(0), handle, zero)
            self._is_mapped = True
            access = _Access(_Location(_ON_DEVICE, device.index or 0), _READ_WRITE)
            _driver(
                "cuMemSetAccess", self._address, rounded, ctypes.byref(access), ctypes.c_size_t(1)
            )
        finally:
            _driver("cuMemRelease", handle)  # the mapping keeps the memory
        self._size = size

    @property
    def whole(self) -> torch.Tensor:
        """See Memory."""
        return self._bytes(0, self._size)

    def view(self, offset: int, dtype: torch.dtype, count: int) -> torch.Tensor:
        """See Memory."""
        return self._bytes(offset, count * dtype.itemsize).view(dtype)

    def _bytes(self, offset: int, size: int) -> torch.Tensor:
        return torch.as_tensor(_Span(self, self._address.value + offset, size), device=self.device)

    @property
    def first(self) -> int:
        """Address of the first byte in this process."""
        return self._address.value

    @property
    def end(self) -> int:
        """Address after the last byte, as `first`."""
        return self._address.value + self._size

    def __del__(self) -> None:
        """Unmap the memory.  No tensor views it any more, because tensors keep their span
        alive, and a span this object.

        If an exception ended the caller, queued work may still read the memory; without waiting for
        it, that is an illegal access, after which the context is unusable (H200).
        """
        if not getattr(self, "_is_mapped", False):
            return
        with suppress(RuntimeError):  # the context is lost already
            torch.cuda.current_stream(self.device).synchronize()
        _driver("cuMemUnmap", self._address, ctypes.c_size_t(self._rounded))


class _Span:
    """Raw device memory in the form that torch.as_tensor takes without copying
    (numba's CUDA array interface, v3).
    """

    def __init__(self, owner: object, address: int, size: int) -> None:
        """`owner`: object that is kept alive."""
        self._owner = owner
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
            "strides": None,
        }
