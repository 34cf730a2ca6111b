"""Launches that apply a function to single elements of the library's tensors, wherever they lie.

A kernel may turn round, transpose or cut out elements of a tensor as it undoes a function of them,
so that no tensor of the library's has the answer's elements at the same places; or it takes an
input away that the library had added.  So the launch is repeated on other values:

* with a few elements of each tensor exchanged that depends on the inputs, no more elements of its
  result may change, or it spreads one over several, as a statistic of each row;
* with half of the elements of one tensor exchanged, no more than half of those may change that do
  with all exchanged, or it combines several, as a sum, a maximum or a stencil.

This does not guard against a kernel that also reads the element beside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from workers.backends.recording.earlier_tensors import EarlierTensors
from workers.backends.recording.written_values import Written
from workers.protocol.roundoff import unit

EXCHANGED = 64
"""Elements of a tensor that are exchanged among themselves, as a few."""

LEAST_CHANGED = 1024
"""Elements of a result that have to change with all exchanged, for their number to tell anything.
"""

HALF, ERRORS = 0.53, 3
"""Share of these that may change with half of the elements exchanged, at least, and standard
deviations of chance; 0.56 for the larger one of two elements behind a ReLU.
"""

ROUNDINGS = 8
"""Difference of an element that has not changed, in roundings of its type."""


class Launch(NamedTuple):
    """A launch that can be repeated, with the values of its tensors before and after it.  They have
    the latter again after a test.
    """

    run: Callable[[], Any]
    tensors: Sequence[torch.Tensor]
    before: Sequence[torch.Tensor]
    written: Sequence[Written]

    def changes(self, some: Mapping[int, torch.Tensor], count: int) -> int:
        """Number of the written elements that come out otherwise if `count` elements at random of
        each of these tensors have each other's values.
        """
        for at, (tensor, old) in enumerate(zip(self.tensors, self.before, strict=True)):
            tensor.copy_(_exchanged(old, count) if at in some else old)
        self.run()
        pairs = zip(self.written, self.tensors, strict=True)
        return sum(_changes(written, tensor) for written, tensor in pairs)

    def restore(self) -> None:
        """Give the tensors the values that they had after the launch."""
        for tensor, written in zip(self.tensors, self.written, strict=True):
            tensor.copy_(written.values)


def is_map(launch: Launch, earlier: EarlierTensors, *, is_multiple: bool = False) -> bool:
    """Test whether each element that a launch wrote is a function of one element at the most of
    each tensor that it reads, among them one that the library had computed; of weights and
    constants it may read any.  False for a launch that is explained as a multiple.
    """
    pairs = zip(launch.tensors, launch.written, strict=True)
    changed = [tensor for tensor, each in pairs if each.changed.any()]
    found = (
        bool(changed)
        and not is_multiple
        and (all(map(earlier.explain, changed)) or _is_local(launch, earlier))
    )
    earlier.note_launch(changed, is_map=found)
    return found


def _is_local(launch: Launch, earlier: EarlierTensors) -> bool:
    floats = {at: x for at, x in enumerate(launch.before) if x.is_floating_point()}
    made = {at: x for at, x in floats.items() if earlier.has_made(launch.tensors[at])}
    given = {
        at: x
        for at, x in floats.items()
        if at not in made and earlier.is_derived(launch.tensors[at])
    }
    if not made:
        return False
    try:
        return (
            0 < launch.changes(made, EXCHANGED) <= _most(made)
            and launch.changes(given, EXCHANGED) <= _most(given)
            and all(_takes_one(launch, {at: x}) for at, x in made.items())
        )
    finally:
        launch.restore()


def _most(values: Mapping[int, torch.Tensor]) -> int:
    """Most elements of a result that depend on EXCHANGED elements of each of these tensors.  A
    smaller tensor has no element for each of the result's.
    """
    return EXCHANGED * sum(x.numel() > EXCHANGED for x in values.values())


def _takes_one(launch: Launch, one: Mapping[int, torch.Tensor]) -> bool:
    """Test whether each element of the result depends on one element of a tensor at the most."""
    (values,) = one.values()
    every = launch.changes(one, values.numel())
    most = max(HALF, 0.5 + ERRORS * 0.5 / max(1, every) ** 0.5)
    return not every or (
        every >= LEAST_CHANGED and launch.changes(one, values.numel() // 2) <= most * every
    )


def _exchanged(values: torch.Tensor, count: int) -> torch.Tensor:
    flat = values.flatten().clone()
    some = torch.randperm(flat.numel(), device=flat.device)[:count]
    flat[some] = flat[some.roll(1)]
    return flat.view(values.shape)


def _changes(written: Written, tensor: torch.Tensor) -> int:
    right, now = written.values, tensor.detach().to(written.values.device)
    if not right.is_floating_point():
        return int(((now != right) & written.changed).sum())
    is_same = (now - right).abs() <= ROUNDINGS * unit(right.dtype) * right.abs()
    is_same |= (now == right) | (now.isnan() & right.isnan())
    return int((~is_same & written.changed).sum())
