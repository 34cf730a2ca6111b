"""Values that launches wrote, kept for replays (AblationMode.KEEP, REPLAY).

Small tensors are copied to the host and compared there.  A process takes 15 to 30 ms for each
operation that it uses on a GPU for the first time, because the driver loads the operation's module,
and timers wait meanwhile.  Comparing on the device would load four modules in every evaluation
(H200: an ablation takes 86 ms so, and 42 ms on the host).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

HOST_BYTES = 32 << 20
"""Bytes of the tensors of a call's launches up to which they are copied to the host."""

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Written(NamedTuple):
    """One tensor of a launch."""

    changed: torch.Tensor
    """Mask of the elements that the launch changed."""
    values: torch.Tensor
    """All elements after the launch, on the host or on the device."""


def copies(tensors: Iterable[torch.Tensor], *, on_host: bool) -> list[torch.Tensor]:
    """Private copies of tensors."""
    return [_copy(tensor, on_host=on_host) for tensor in tensors]


def compared(before: Sequence[torch.Tensor], after: Sequence[torch.Tensor]) -> list[Written]:
    """The tensors after a launch, with the elements that differ from those before;
    the memory of all is private.
    """
    return [Written(_differ(old, new), new) for old, new in zip(before, after, strict=True)]


def replay(written: Iterable[Written], tensors: Iterable[torch.Tensor]) -> None:
    """Write the changed elements into tensors of the same shape and type; others are left alone."""
    for tensor, (changed, values) in zip(tensors, written, strict=False):
        if tensor.shape == values.shape and tensor.dtype == values.dtype:
            now = _copy(tensor, on_host=True) if values.device != tensor.device else tensor
            found = torch.where(changed, words(values), words(now))
            tensor.copy_(found.view(tensor.dtype))


def turned(written: Iterable[Written]) -> list[Written]:
    """The same with the changed elements of each tensor turned by a third: of a flag, or of numbers
    that hardly matter, a replay is as good as before, and of a computation it is wrong.
    """
    found = []
    for changed, values in written:
        moved = values.clone()
        some = words(values)[changed]
        words(moved)[changed] = some.roll(1 + len(some) // 3)
        found.append(Written(changed, moved))
    return found


def _copy(tensor: torch.Tensor, *, on_host: bool) -> torch.Tensor:
    own = tensor.detach().resolve_conj().resolve_neg()
    return own.to("cpu", copy=True) if on_host else own.clone()


def _differ(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Mask of the elements with other bits, where elements are words; else of those
    with other values.
    """
    return words(old) != words(new)


def words(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bits as signed integers, for which torch has every operation (torch 2.11 has no
    `where` for uint32); the tensor itself where no integer has its size.
    """
    word = _WORDS.get(tensor.itemsize)
    return tensor if word is None else tensor.view(word)
