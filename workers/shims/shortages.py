"""Allocations of device memory that failed and that a library survived.

torch tries cuDNN's engines in turn, takes the first that finds memory for its workspace, and keeps
it for as long as the process lives (aten/src/ATen/native/cudnn/Conv_v8.cpp, `try_configs`).  A
process that once lacked memory is slower from then on, without an error: KernelBench 1/76 takes
14.5 ms in place of 9.9, 2/19 14.6 in place of 10.2, 1/68 185 in place of 34 (H200).  Its times are
no measure of its code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_statistics = torch._C._cuda_memoryStats if hasattr(torch._C, "_cuda_memoryStats") else None
_attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
"""Bound here, before a candidate's source is executed."""

_disregarded = 0


def count() -> int:
    """Allocations that failed so far in this process, after the allocator had released all unused
    memory, except the disregarded ones.
    """
    return _failed() - _disregarded


@contextmanager
def disregarded() -> Iterator[None]:
    """Context of work that is never timed, and whose types are not those of timed calls: an
    algorithm chosen in it serves no other work.
    """
    global _disregarded
    before = _noted.number()
    try:
        yield
    finally:
        _disregarded += _noted.number() - before


def _failed() -> int:
    if _statistics is None or not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return 0
    return int(_statistics(torch.cuda.current_device())["num_ooms"])


class _Noted:
    """Number of failed allocations, noted by the allocator's observer.  The statistics have the
    same number, and take 22 µs to read (H100), twice for each call in fp64.  Without an observer
    they are read.
    """

    def __init__(self) -> None:
        """Without an observer at first."""
        self._earlier: int | None = None
        """Failures before the observer was attached; None if it is not."""
        self._since = 0

    def number(self) -> int:
        """Failures so far.  Attaches the observer once the device is in use: doing so begins that
        use, which a zygote must not.
        """
        if self._earlier is not None:
            return self._earlier + self._since
        failed = _failed()
        if _attach is not None and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            _attach(self._note)
            self._earlier = failed
        return failed

    def _note(self, *_: int) -> None:
        self._since += 1


_noted = _Noted()
