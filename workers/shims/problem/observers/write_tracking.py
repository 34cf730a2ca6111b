"""Detection of writes into memory that a call did not allocate itself.

A model that keeps its answer or a table in the same memory (of the module, a global,
a cache of functools) writes there in every call.  Several such calls side by side
would overwrite each other's data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from workers.backends.support.dispatch_mode import Watching, written
from workers.protocol import layout


def writes_elsewhere(call: Callable[[], object], own: torch.Tensor) -> bool:
    """Make the call; returns whether it wrote into a tensor that existed before, other than `own`.

    Also True if the call fails under a dispatch mode; it is then repeated without.
    Writes by kernels that torch does not dispatch (Triton's, an extension's) are not
    seen.  Raises the call's own errors.
    """
    watch = _Watch(own)
    try:
        with watch:
            call()
    except Exception:  # noqa: BLE001 (a mode more than the model can stand; other faults show below)
        call()
        return True
    return watch.elsewhere


class _Watch(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that records the storages that operators allocate, and writes into others."""

    def __init__(self, own: torch.Tensor) -> None:
        super().__init__()
        self._made = _storages(own)
        self.elsewhere = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        self.elsewhere |= not _storages(written(func, args, given)) <= self._made
        result = func(*args, **given)
        self._made |= _storages(result) - _storages([*args, *given.values()])
        return result


def _storages(value: object) -> set[int]:
    """Storages of the tensors in a value, identified by their first address."""
    tensors = (
        each for each in layout.values(value) if isinstance(each, torch.Tensor) and each.numel()
    )
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}
