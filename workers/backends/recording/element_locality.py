"""Launches that apply a function to single elements of the library's tensors, wherever they lie.

A kernel may turn round, transpose or cut out elements of a tensor as it undoes a function of them,
so that no tensor of the library's has the answer's elements at the same places; or it takes an
input away that the library had added.  So the launch is repeated on other values: with a few
elements of each tensor exchanged, no more elements of its result may change.

A kernel that adds a bias, or multiplies by a statistic of each row, is none of these.  This does
not guard against a kernel that also reads the element beside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from workers.backends.recording.earlier_tensors import EarlierTensors
from workers.backends.recording.written_values import Written
from workers.protocol.roundoff import unit

EXCHANGED = 64
"""Elements of a tensor that are exchanged among themselves."""

ROUNDINGS = 8
"""Difference of an element that has not changed, in roundings of its type."""


def is_map(
    run: Callable[[], Any],
    tensors: Sequence[torch.Tensor],
    before: Sequence[torch.Tensor],
    written: Sequence[Written],
    earlier: EarlierTensors,
) -> bool:
    """Test whether each element that a launch wrote is a function of one element at the most of
    each tensor that it reads, among them one that the library had computed.

    `run`: the launch; `before`: its tensors' values before it; `written`: after it.  The tensors
    have these values again afterwards.
    """
    changed = [tensor for tensor, each in zip(tensors, written, strict=True) if each.changed.any()]
    if not changed:
        return False
    if all(map(earlier.explain, changed)) or _is_local(run, tensors, before, written, earlier):
        earlier.note_mapped(changed)
        return True
    return False


def _is_local(
    run: Callable[[], Any],
    tensors: Sequence[torch.Tensor],
    before: Sequence[torch.Tensor],
    written: Sequence[Written],
    earlier: EarlierTensors,
) -> bool:
    floats = {at: x for at, x in enumerate(before) if x.is_floating_point()}
    made = {at: x for at, x in floats.items() if earlier.has_made(tensors[at])}
    given = {at: x for at, x in floats.items() if at not in made}
    if not made:
        return False

    def is_local(some: Mapping[int, torch.Tensor], least: int) -> bool:
        changes = _differing(
            run, tensors, before, written, {at: _exchanged(some[at]) for at in some}
        )
        return least <= changes <= EXCHANGED * sum(x.numel() > EXCHANGED for x in some.values())

    try:
        return is_local(made, 1) and is_local(given, 0)
    finally:
        for tensor, each in zip(tensors, written, strict=True):
            tensor.copy_(each.values)


def _exchanged(values: torch.Tensor) -> torch.Tensor:
    """A copy in which a few elements at random have each other's values, or all if they are few."""
    flat = values.flatten().clone()
    some = torch.randperm(flat.numel(), device=flat.device)[:EXCHANGED]
    flat[some] = flat[some.roll(1)]
    return flat.view(values.shape)


def _differing(
    run: Callable[[], Any],
    tensors: Sequence[torch.Tensor],
    before: Sequence[torch.Tensor],
    written: Sequence[Written],
    values: Mapping[int, torch.Tensor],
) -> int:
    """Number of the written elements that come out otherwise with these values of some tensors."""
    for at, (tensor, old) in enumerate(zip(tensors, before, strict=True)):
        tensor.copy_(values.get(at, old))
    run()
    return sum(_changes(each, tensor) for each, tensor in zip(written, tensors, strict=True))


def _changes(written: Written, tensor: torch.Tensor) -> int:
    right, now = written.values, tensor.detach().to(written.values.device)
    if not right.is_floating_point():
        return int(((now != right) & written.changed).sum())
    is_same = (now - right).abs() <= ROUNDINGS * unit(right.dtype) * right.abs()
    is_same |= (now == right) | (now.isnan() & right.isnan())
    return int((~is_same & written.changed).sum())
