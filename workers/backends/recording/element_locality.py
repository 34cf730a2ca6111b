"""Launches of which each result follows from a few elements of the library's tensors.

A kernel may turn round, transpose or cut out elements of a tensor as it undoes a function of them,
so that no tensor of the library's has the answer's elements at the same places; it may take an
input away that the library had added, scale and shift by vectors among the inputs, add up two parts
in which the library computed the answer, or read an input at places that the library searched.  So
the launch is repeated on other values:

* with a few elements of each tensor of numbers exchanged that the library computed, not many more
  elements of its result may change, or it spreads one over several, as a statistic of each row;
* with a sixteenth of the elements of one tensor exchanged, no more may change than results of FEW
  elements do, of those that change with all exchanged, or it combines many, as a sum or a product.

An honest kernel behind a product of the library may be such a one, too, as a gated activation is.
So app/detectors/fig_leaf.py compares the library's work with the reference's before it accuses.

A launch that only prepares inputs in such a way tells nothing by itself; if the library computes
with its result, it is as if the library had begun.

This does not guard against a kernel that reads more elements, or a part of an answer for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from workers.backends.recording.earlier_tensors import EarlierTensors
from workers.backends.recording.written_values import Written, words
from workers.protocol.roundoff import computable, unit

EXCHANGED = 64
"""Elements of a tensor that are exchanged among themselves, as a few."""

FEW = 8
"""Elements of a tensor that a result follows from, and results that follow from one, at the most.
"""

PART = 16
"""One of so many elements is exchanged, as a part."""

LEAST_CHANGED = 1024
"""Elements of a result that have to change with all exchanged, for their number to tell anything.
"""

ERRORS = 3
"""Standard deviations of chance."""

AT_ONCE, AT_ONCE_ON_DEVICE = 1 << 20, 1 << 24
"""Elements that are compared at once: the comparison has some temporaries of their size, and waits
for a GPU.
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
        each of these tensors have each other's values, or integers the smaller ones.
        """
        for tensor, old in zip(self.tensors, self.before, strict=True):
            tensor.copy_(old)
        for at in some:  # last: another of the tensors may be in the same memory
            self.tensors[at].copy_(_within(self.before[at], _exchanged(self.before[at], count)))
        self.run()
        pairs = zip(self.written, self.tensors, strict=True)
        return sum(_changes(written, tensor) for written, tensor in pairs)

    def restore(self) -> None:
        """Give the tensors the values that they had after the launch."""
        for tensor, written in zip(self.tensors, self.written, strict=True):
            tensor.copy_(written.values)


def is_map(launch: Launch, earlier: EarlierTensors, *, is_multiple: bool = False) -> bool:
    """Test whether each element that a launch wrote follows from one element, or from FEW at the
    most, of each tensor that it reads, among them one that the library had computed, or all of them
    inputs; of weights and constants it may read any.  False for a launch that is explained as a
    multiple.
    """
    pairs = zip(launch.tensors, launch.written, strict=True)
    changed = [tensor for tensor, each in pairs if each.is_changed]
    is_looked_at = bool(changed) and not is_multiple
    is_function = is_looked_at and all(map(earlier.explain, changed))
    found = is_function or (is_looked_at and _is_local(launch, earlier))
    prepares = is_looked_at and not found and _prepares(launch, earlier)
    earlier.note_launch(changed, is_map=found, is_function=is_function, prepares=prepares)
    return found or prepares


def _prepares(launch: Launch, earlier: EarlierTensors) -> bool:
    """Test whether each element of the result depends on FEW elements at the most of each input
    that a launch reads, and on no tensor that the library or another launch had computed: launches
    that each combine a few elements sort, if there are many.
    """
    derived = _derived(launch, earlier)
    if not derived or not all(earlier.is_given(launch.tensors[at]) for at in derived):
        return False
    numbers = {at: x for at, x in derived.items() if x.is_floating_point()}
    try:
        is_spread = numbers and launch.changes(numbers, EXCHANGED) > _most(numbers)
        return not is_spread and all(_takes_few(launch, {at: derived[at]}) for at in derived)
    finally:
        launch.restore()


def _derived(launch: Launch, earlier: EarlierTensors) -> dict[int, torch.Tensor]:
    """Values of the tensors of a launch that may depend on inputs, by their places."""
    return {
        at: x
        for at, (x, tensor) in enumerate(zip(launch.before, launch.tensors, strict=True))
        if x.numel() > 1 and earlier.is_derived(tensor) and not _are_offsets(x)
    }


def _is_local(launch: Launch, earlier: EarlierTensors) -> bool:
    derived = _derived(launch, earlier)
    made = {at: x for at, x in derived.items() if earlier.has_made(launch.tensors[at])}
    numbers = {at: x for at, x in made.items() if x.is_floating_point()}
    if not made:
        return False
    try:
        if numbers and not 0 < launch.changes(numbers, EXCHANGED) <= _most(numbers):
            return False
        # Last those by which a kernel may find its elements.
        order = sorted(derived, key=lambda at: not derived[at].is_floating_point())
        return all(_takes_few(launch, {at: derived[at]}) for at in order)
    finally:
        launch.restore()


def _are_offsets(values: torch.Tensor) -> bool:
    """Test for integers in order, such as those of ragged rows: exchanged, they might lead beyond a
    tensor.
    """
    if values.is_floating_point() or values.dtype == torch.bool:
        return False
    flat = words(values.flatten())  # the difference of two unsigned numbers is never negative
    return bool((flat[1:] >= flat[:-1]).all())


def _most(values: Mapping[int, torch.Tensor]) -> int:
    """Most elements of a result that depend on EXCHANGED elements of each of these tensors.  A
    smaller tensor has no element for each of the result's.
    """
    return FEW * EXCHANGED * sum(x.numel() > EXCHANGED for x in values.values())


def _takes_few(launch: Launch, one: Mapping[int, torch.Tensor]) -> bool:
    """Test whether each element of the result depends on FEW elements of a tensor at the most."""
    (values,) = one.values()
    every, part = launch.changes(one, values.numel()), max(2, values.numel() // PART)
    if not every:
        return True
    share = 1 - (1 - part / values.numel()) ** FEW
    chance = ERRORS * (share * (1 - share) / min(every, part)) ** 0.5
    return every >= LEAST_CHANGED and launch.changes(one, part) <= (share + chance) * every


def _exchanged(values: torch.Tensor, count: int) -> torch.Tensor:
    """The values with `count` of them exchanged: a few, a part or all.  A permutation of all takes
    eight bytes for each, and as much again to be drawn.
    """
    flat, size = words(values.flatten()).clone(), values.numel()
    if count >= size:
        flat = flat.roll(size // 4 + int(torch.randint(1 + size // 2, ())))
        return flat.view(values.dtype).view(values.shape)
    if count <= EXCHANGED:
        some = torch.randint(size, (count,), device=flat.device)
    else:
        some = (torch.rand(size, device=flat.device) < count / size).nonzero().flatten()
    flat[some] = flat[some.roll(max(1, len(some) // 3))]
    return flat.view(values.dtype).view(values.shape)


def _within(values: torch.Tensor, exchanged: torch.Tensor) -> torch.Tensor:
    """The exchanged numbers; of integers the smaller ones of both.  One that is a place in a tensor
    remains one, and one that is the length of a row leads no further than its own row's end.
    """
    if values.is_floating_point() or values.dtype == torch.bool:
        return exchanged
    own, other = words(values), words(exchanged)
    order = 0 if values.dtype.is_signed else torch.iinfo(own.dtype).min  # bits compare as signed
    return (torch.minimum(own ^ order, other ^ order) ^ order).view(values.dtype)


def _changes(written: Written, tensor: torch.Tensor) -> int:
    now = tensor.detach().to(written.values.device)
    at_once = AT_ONCE_ON_DEVICE if now.is_cuda else AT_ONCE
    parts = zip(
        *(torch.split(x.reshape(-1), at_once) for x in (now, written.values, written.changed)),
        strict=True,
    )
    return sum(_differing(*each) for each in parts)


def _differing(now: torch.Tensor, right: torch.Tensor, where: torch.Tensor) -> int:
    """Number of the elements in a mask that differ by more than rounding."""
    some = (words(now) != words(right)) & where
    if not right.is_floating_point():
        return int(some.sum())
    most = ROUNDINGS * unit(right.dtype)
    now, right = computable(now[some]), computable(right[some])
    is_same = (now - right).abs() <= most * right.abs()
    return int((~is_same & ~(now.isnan() & right.isnan())).sum())
