"""Elements of inputs, and of results of operators that combine many, from which each element of a
tensor follows by local operators (workers/shims/problem/observers/local_tail.py).

One local operator combines a few elements, a chain of them perhaps many: the state of a recurrence,
unrolled over elementwise operators, follows from all earlier steps.  No kernel that combines a few
elements can take over such a chain, so that its operators are counted apart.  The first ones, whose
results follow from few elements, and the last ones, which functions of each state may be, are none.

An element is known by the part of a tensor that a view shows: the same part has the element at each
place, another part has another one.  Weights and constants do not count, and few terms that one
operator adds up or pools count as one element: the next operator may take the same ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch

from workers.backends.recording import library_work
from workers.backends.recording.element_locality import FEW

MOST_OF_ONE, MOST = 2 * FEW, 8 * FEW
"""Elements of one tensor, and of all, that kernels which combine a few can take together: two
launches one after the other, and several tensors.
"""

LAST = 2 * FEW
"""Last operators of a chain, which may be functions of its states."""

PLACED = (library_work.MOVES - library_work.COPIES) | {
    f"aten::{name}" for name in ("index_put", "index_put_", "scatter", "scatter_")
}
"""Operators of which each result is an element of one argument or of another, at another place."""

Element = tuple[int, int]
"""A tensor, and the part of it."""

Part = tuple[int, ...]
"""Offset in a tensor's memory, sizes and strides, of neighbouring dimensions as one."""


class _Record(NamedTuple):
    part: Part
    """The part of the memory that was written last."""
    elements: frozenset[Element] | None
    """None for too many."""
    maker: int
    """Number of the operator."""


_NONE: frozenset[Element] = frozenset()


class FollowedElements:
    """Record of one call."""

    def __init__(self, inputs: Iterable[object] = ()) -> None:
        """Only the inputs are known."""
        self._inputs = frozenset(map(library_work.identity, library_work.tensors(inputs)))
        self._records: dict[int, _Record] = {}
        """By the address of a tensor's memory."""
        self._above: dict[int, set[int]] = {}
        """Per local operator whose results follow from too many elements, those that made its
        arguments.
        """

    @property
    def chains(self) -> set[int]:
        """Numbers of the operators in chains that combine many elements."""
        following: dict[int, int] = {}
        for number in sorted(self._above, reverse=True):
            for each in self._above[number]:
                following[each] = max(following.get(each, 0), 1 + following.get(number, 0))
        return {number for number, count in following.items() if count >= LAST}

    def forget(self, made: Iterable[torch.Tensor]) -> None:
        """Note tensors without an element, as of constants."""
        for tensor in made:
            self._records.pop(library_work.identity(tensor), None)

    def begin(self, number: int, made: Iterable[torch.Tensor]) -> None:
        """Note the results of an operator that is not local: each element is one of its own."""
        for tensor in made:
            self._write(tensor, frozenset({(-1 - number, 0)}), number)

    def combine(
        self, number: int, func: Any, args: Sequence[Any], kwargs: Any, made: Iterable[torch.Tensor]
    ) -> None:
        """Note the results of a local operator."""
        name = func._schema.name
        outs = {each.name for each in func._schema.arguments if each.is_out} if kwargs else ()
        read = args[1:] if name in library_work.OVERWRITING else args
        others = [value for key, value in kwargs.items() if key not in outs]
        tensors = library_work.tensors([*read, *others])
        taken = [self._of(each) for each in tensors]
        found = _larger(taken) if name in PLACED else _joined(taken)
        if found is not None and name in PLACED:
            found = frozenset((root, hash((part, number))) for root, part in found)
        if found is None or _are_many(found):
            found, records = None, [self._records.get(library_work.identity(x)) for x in tensors]
            makers = {each.maker for each in records if each is not None}
            self._above[number] = makers & self._above.keys()
        for tensor in made:
            self._write(tensor, found, number)

    def _of(self, tensor: torch.Tensor) -> frozenset[Element] | None:
        address, part = library_work.identity(tensor), _part(tensor)
        record = self._records.get(address)
        if record is None:
            return frozenset({(address, hash(part))}) if address in self._inputs else _NONE
        if record.elements is None or record.part == part:
            return record.elements
        return frozenset((root, hash((inner, part))) for root, inner in record.elements)

    def _write(self, tensor: torch.Tensor, elements: frozenset[Element] | None, maker: int) -> None:
        """Note the elements of a tensor, or of a part: the others keep theirs, so that the larger
        number is that of the whole.
        """
        address = library_work.identity(tensor)
        before = self._records.get(address)
        if before is not None and _is_in_part(tensor):
            elements = _larger([elements, before.elements])
        self._records[address] = _Record(_part(tensor), elements, maker)


def _joined(several: Iterable[frozenset[Element] | None]) -> frozenset[Element] | None:
    found = _NONE
    for each in several:
        if each is None:
            return None
        found |= each
    return found


def _larger(several: Iterable[frozenset[Element] | None]) -> frozenset[Element] | None:
    found = _NONE
    for each in several:
        if each is None:
            return None
        found = each if len(each) > len(found) else found
    return found


def _are_many(elements: frozenset[Element]) -> bool:
    if len(elements) <= MOST_OF_ONE:
        return False
    return len(elements) > MOST or max(Counter(x[0] for x in elements).values()) > MOST_OF_ONE


def _is_in_part(tensor: torch.Tensor) -> bool:
    try:
        whole = tensor.untyped_storage().nbytes()
    except (RuntimeError, NotImplementedError):  # sparse, or opaque
        return False
    return tensor.numel() * tensor.element_size() < whole


def _part(tensor: torch.Tensor) -> Part:
    """The part of its memory that a tensor shows, whatever the shape."""
    if tensor.layout != torch.strided:
        return ()
    merged: list[int] = []
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if size == 1 or not stride:
            continue
        if merged and merged[-1] == size * stride:
            merged[-2:] = [merged[-2] * size, stride]
        else:
            merged += [size, stride]
    return (int(tensor.storage_offset()), *merged)
