"""Tensors that the library computed earlier in a call than a candidate's kernel wrote the same
values, or a function of them.

A candidate may have the library compute its answer, move or encode it (turned round, as its bits'
complement, in two parts), and undo that in a kernel.  In a call of which launches' writes are kept
(AblationMode.NOTE), a sample of every tensor that the library computes is noted.  A launch that
writes the values of one of them is explained by that tensor: in another call (AblationMode.SCALE)
it is written in place of the launch, and if the answer is still right, the library had computed it.
A launch that writes a function of each element of one is told by elementwise_maps.py.

The mode can be seen by the candidate: calls without it come first.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from workers.backends.recording import elementwise_maps
from workers.backends.recording.library_work import (
    FILLING,
    FREE,
    MOVES,
    identity,
    of_launching,
    tensors,
    work_of,
)
from workers.backends.support.dispatch_mode import Watching, written

SAMPLED = 8192
"""Elements of a tensor that are noted, at the most twice as many."""

MOST_NOTED, LARGEST_VIEW = 512, 1 << 22
"""Most tensors that are noted, and elements of the largest that is copied to be noted."""

FILLS = FILLING | {
    f"aten::{name}" for name in ("arange", "fill_", "full", "ones", "zero_", "zeros")
}
"""Operators whose result holds no computation."""


class Sample(NamedTuple):
    """Some elements of a tensor, on its device until they are compared."""

    size: int
    """Number of all elements."""
    dtype: torch.dtype
    ordered: torch.Tensor | None
    """In the order of its indices; None where it would have to be copied and is large."""
    stored: torch.Tensor | None
    """In the order of its memory; None where that has holes."""

    def on_host(self) -> Sample:
        """The sample on the host, in fp64."""
        ordered, stored = (x if x is None else x.cpu().double() for x in self[2:])
        return self._replace(ordered=ordered, stored=stored)


class EarlierTensors(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that notes samples of the tensors that the library computes in one call, or
    keeps some of them.
    """

    def __init__(
        self, wanted: Collection[int] | None = None, inputs: Iterable[object] = ()
    ) -> None:
        """`wanted`: numbers, in the order of the call, of the tensors that are kept; None to note
        samples of all.  `inputs`: those of the call.
        """
        super().__init__()
        self.kept: dict[int, torch.Tensor] = {}
        self._work_bytes = self._operators = 0
        self._wanted = wanted
        self._samples: dict[int, Sample] = {}
        """By number."""
        self._inputs = [sample for x in tensors(inputs) if (sample := _sample(x)) is not None]
        self._given = frozenset(map(identity, tensors(inputs)))
        """Addresses of the memory of the inputs."""
        self._derived = set(self._given)
        """The same of tensors that depend on an input."""
        self._made: set[int] = set()
        """The same of those that the library computed."""
        self._mapped: set[int] = set()
        """The same of results of launches that only apply a function."""
        self._prepared: set[int] = set()
        """The same of results that follow from a few elements of inputs."""
        self._launched: set[int] = set()
        """The same of results of any launch."""
        self.has_maps = self.prepares = False
        """True if there were launches of the one kind, and of the other."""
        self.goes_on = self.begins = False
        """True if the library computed with results of the one kind, and of the other."""
        self._number = 0
        self._pauses = 0

    @property
    def work_bytes(self) -> int:
        """Work of the library, as bytes that a GPU moves in the same time."""
        return self._work_bytes + of_launching(self._operators)

    @property
    def mapped(self) -> int:
        """Summary for the referee (Recorder.mapped)."""
        if not (self.has_maps or self.begins):
            return 0
        return 4 * max(1, self.work_bytes) + 2 * self.prepares + self.goes_on

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Context of operators that are not the candidate's."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1

    def numbers_of(self, values: torch.Tensor, rounding: float) -> Iterator[int]:
        """Numbers of the tensors whose samples are those of this one, but for `rounding` of the
        largest element.
        """
        sample = _sample(values)
        mine = sample and sample.on_host().ordered
        if sample is None or mine is None or not bool((mine != mine[0]).any()):
            return
        for number, noted in self._like(sample):
            if noted.ordered is None or noted.dtype != values.dtype:
                continue
            off = (noted.ordered - mine).abs().max()
            if bool(off <= rounding * mine.abs().max()):
                yield number

    def explain(self, values: torch.Tensor) -> bool:
        """Test whether each element of a tensor is a function of the element of one noted tensor at
        its place, and of no input's.
        """
        sample = _sample(values)
        if sample is None:
            return False
        mine = sample.on_host()
        given = [each.on_host() for each in self._inputs if each.size == sample.size]
        if any(_is_function(each, mine) for each in given):
            return False
        return any(_is_function(noted, mine) for _, noted in reversed(list(self._like(sample))))

    def note_launch(
        self,
        results: Iterable[torch.Tensor],
        *,
        is_map: bool,
        is_function: bool = True,
        prepares: bool = False,
    ) -> None:
        """Note the results of a launch, and whether each follows from a few elements, from one at
        its place, or from a few of inputs.  Otherwise the result is no tensor of the library's,
        even if it is in one's memory: kernels that combine a few elements sort, if there are many.
        """
        addresses = set(map(identity, results))
        self._derived |= addresses
        self._launched |= addresses
        self._made -= set() if is_function else addresses
        self.has_maps |= is_map
        self.prepares |= prepares
        self._mapped |= addresses if is_map else set()
        self._prepared |= addresses if prepares else set()

    def has_made(self, tensor: torch.Tensor) -> bool:
        """Test whether the library computed a tensor in this call from an input: it was neither
        given nor only moved or filled.  Functions of each element of one input do not count: a
        kernel that combines them with others might as well read the input.
        """
        return identity(tensor) in self._made

    def is_given(self, tensor: torch.Tensor) -> bool:
        """Test whether neither the library computed a tensor in this call nor a launch wrote it."""
        return identity(tensor) not in self._made | self._launched

    def is_derived(self, tensor: torch.Tensor) -> bool:
        """Test whether a tensor is an input or may depend on one; weights and constants do not."""
        return identity(tensor) in self._derived

    def _like(self, sample: Sample) -> Iterator[tuple[int, Sample]]:
        """The noted tensors with as many elements, by number."""
        for number, noted in self._samples.items():
            if noted.size == sample.size:
                self._samples[number] = noted.on_host()
                yield number, self._samples[number]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if self._pauses or func.is_view:
            return result
        name = func._schema.name
        self._follow(
            name,
            {identity(each) for each in tensors([*args, *kwargs.values()])},
            {identity(each) for each in (*tensors([result]), *written(func, args, kwargs))},
            prepares=self._applies_a_function(func, args, kwargs),
        )
        if name not in FREE:
            work = work_of(func, args, kwargs, result)
            self._work_bytes += work
            self._operators += bool(work)
            for made in tensors([result]):
                self._note(made)
        return result

    def _follow(
        self, name: str, taken: set[int], results: set[int], *, prepares: bool = False
    ) -> None:
        """Note which results of an operator the library computed, by addresses.  `prepares`: it
        applies a function to each element of one tensor.
        """
        moves, computes = name in MOVES, name not in (*FREE, *FILLS, *MOVES)
        is_derived = not self._derived.isdisjoint(taken)
        self.goes_on |= computes and not self._mapped.isdisjoint(taken)
        self.begins |= computes and not self._prepared.isdisjoint(taken)
        makes = (computes and not prepares) or not self._made.isdisjoint(taken)
        of_launches = (self._mapped, self._prepared, self._launched)
        for known, is_one in (
            (self._made, is_derived and makes),
            *((each, moves and not each.isdisjoint(taken)) for each in of_launches),
            (self._derived, is_derived and (computes or moves)),
        ):
            known -= results - self._given
            known |= results if is_one else set()

    def _applies_a_function(self, func: Any, args: Any, kwargs: Any) -> bool:
        """Test whether each result of an operator follows from one element of the only tensor among
        its arguments that is no constant number.
        """
        taken = tensors([*args, *kwargs.values()])
        one = {id(each) for each in taken if each.dim() or self.is_derived(each)}
        return len(one) == 1 and torch.Tag.pointwise in func.tags

    def _note(self, made: torch.Tensor) -> None:
        number, self._number = self._number, self._number + 1
        if self._wanted is not None:
            if number in self._wanted:
                self.kept[number] = made.detach().clone()
        elif len(self._samples) < MOST_NOTED and (sample := _sample(made)) is not None:
            self._samples[number] = sample


def _sample(x: torch.Tensor) -> Sample | None:
    """Some elements of a tensor of floats; None of one that has none."""
    is_plain = type(x) in (torch.Tensor, torch.nn.Parameter) and x.layout == torch.strided
    if not is_plain or x.is_meta or not x.is_floating_point() or x.numel() < 2:
        return None
    x = x.detach()
    if x.is_contiguous():
        some = _some(x)
        return Sample(x.numel(), x.dtype, some, some)
    stored = x.permute(sorted(range(x.dim()), key=x.stride, reverse=True))
    return Sample(
        x.numel(),
        x.dtype,
        _some(x) if x.numel() <= LARGEST_VIEW else None,
        _some(stored) if stored.is_contiguous() else None,
    )


def spacing(count: int, most: int) -> int:
    """Distance of evenly spaced elements, about `most` of `count`.  It has no factor in common with
    the tensor's sizes: they lie in all columns alike.
    """
    step = max(1, count // most)
    while math.gcd(step, count) > 1:
        step += 1
    return step


def _some(x: torch.Tensor) -> torch.Tensor:
    """Evenly spaced elements."""
    return x.reshape(-1)[:: spacing(x.numel(), SAMPLED)].clone()


def _is_function(x: Sample, y: Sample) -> bool:
    """Test whether the elements of `y` follow from those of `x`, in either order."""
    pairs = ((x.ordered, y.ordered), (x.stored, y.stored))
    return any(
        one is not None and other is not None and elementwise_maps.is_function(one, other)
        for one, other in pairs
    )
