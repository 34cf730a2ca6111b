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
    before = _failed()
    try:
        yield
    finally:
        _disregarded += _failed() - before


def _failed() -> int:
    if _statistics is None or not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return 0
    return int(_statistics(torch.cuda.current_device())["num_ooms"])
