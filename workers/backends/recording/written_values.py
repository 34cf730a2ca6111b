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

KEPT_BYTES, FREE_SHARE = 3 << 29, 1 / 6
"""Most bytes of launches' writes that are kept for replays in a call, and of the tensors of one
launch beside them; on a GPU this share of its free memory, if that is more: a launch of which each
result follows from a few elements takes three times as much (element_locality.py).
"""

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Written(NamedTuple):
    """One tensor of a launch."""

    is_changed: bool
    """Whether the launch changed any element; asked once, for it is an operation on a device."""
    changed: torch.Tensor
    """Mask of the elements that the launch changed."""
    values: torch.Tensor
    """All elements after the launch, on the host or on the device."""


def most_kept(tensors: Iterable[torch.Tensor]) -> float:
    """Most bytes that may be kept of a call with a launch of these tensors."""
    if not any(each.is_cuda for each in tensors):
        return KEPT_BYTES
    free, _ = torch.cuda.mem_get_info()
    return max(KEPT_BYTES, FREE_SHARE * free)


def copies(tensors: Sequence[torch.Tensor], *, on_host: bool) -> list[torch.Tensor]:
    """Private copies of tensors: one for all that are the same elements."""
    keys = list(map(key, tensors))
    unlike = dict(zip(keys, tensors, strict=True))
    found = {at: _copy(tensor, on_host=on_host) for at, tensor in unlike.items()}
    return [found[at] for at in keys]


def compared(before: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> list[Written]:
    """The tensors after a launch, with the elements that differ from the copies made before.  A
    tensor that did not change has its earlier copy as its values.
    """
    return [_compared(old, tensor) for old, tensor in zip(before, tensors, strict=True)]


def kept(written: Iterable[Written]) -> list[Written]:
    """The same without the values of tensors that did not change."""
    return [
        each if each.is_changed else each._replace(values=_nothing_like(each.values))
        for each in written
    ]


def stored_bytes(written: Written) -> int:
    """Bytes of memory that the writes of one tensor take."""
    return sum(x.untyped_storage().nbytes() for x in (written.changed, written.values))


def key(tensor: torch.Tensor) -> object:
    """Key that tensors of the same elements share."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device


def replay(written: Iterable[Written], tensors: Iterable[torch.Tensor]) -> None:
    """Write the changed elements into tensors of the same shape and type; others are left alone."""
    for tensor, (is_changed, changed, values) in zip(tensors, written, strict=False):
        is_like = tensor.shape == values.shape and tensor.dtype == values.dtype
        if is_like and is_changed:
            now = _copy(tensor, on_host=True) if values.device != tensor.device else tensor
            found = torch.where(changed, words(values), words(now))
            tensor.copy_(found.view(tensor.dtype))


def turned(written: Iterable[Written]) -> list[Written]:
    """The same with the changed elements of each tensor turned by a third: of a flag, or of numbers
    that hardly matter, a replay is as good as before, and of a computation it is wrong.
    """
    return [_turned(each) if each.is_changed else each for each in written]


def _turned(written: Written) -> Written:
    moved = written.values.clone()
    some = words(written.values)[written.changed]
    words(moved)[written.changed] = some.roll(1 + len(some) // 3)
    return written._replace(values=moved)


def _copy(tensor: torch.Tensor, *, on_host: bool) -> torch.Tensor:
    own = tensor.detach().resolve_conj().resolve_neg()
    return own.to("cpu", copy=True) if on_host else own.clone()


def _compared(old: torch.Tensor, tensor: torch.Tensor) -> Written:
    is_elsewhere = old.device != tensor.device
    now = _copy(tensor, on_host=True) if is_elsewhere else tensor.detach()
    now = now.resolve_conj().resolve_neg()
    changed = _differ(old, now)
    if not changed.any():
        return Written(False, _nothing_like(changed), old)
    return Written(True, changed, now if is_elsewhere else _copy(now, on_host=False))


def _nothing_like(tensor: torch.Tensor) -> torch.Tensor:
    """Zeros in a tensor's shape that take no memory."""
    return tensor.new_zeros(()).expand(tensor.shape)


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
