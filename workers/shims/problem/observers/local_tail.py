"""Local operators of a reference, of which each result follows from a few elements of each tensor,
and inputs or weights: elementwise ones, moves, reads at given places, pools of small windows and
products of few terms; the local tail, those of them at the end of a call, after every product,
reduction and other operator that combines many elements; and the local head, those before.

A candidate whose kernels only combine a few elements of each tensor that the library computed
(workers/backends/recording/element_locality.py) can take over these operators and no other ones:
those of the tail, unless the library goes on with its kernels' results; where that computes with
others that follow from a few elements of inputs, those of the head as well.  Chains of local
operators that together combine many elements (followed_elements.py) they cannot take over: these
are counted apart, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from app.domain.kernel_profile import ReferenceChains
from workers.backends.recording import library_work
from workers.backends.recording.element_locality import FEW
from workers.backends.support.dispatch_mode import written
from workers.shims.problem.observers.followed_elements import FollowedElements

POINTWISE = frozenset(
    f"aten::{name}"
    for name in ("hardswish", "hardswish_", "log_sigmoid_forward", "_prelu_kernel", "rsub")
)
"""Elementwise operators that torch does not tag as such."""

READS = frozenset(
    f"aten::{name}"
    for name in (
        *("embedding", "gather", "index", "index_put", "index_put_", "index_select", "scatter"),
        *("scatter_", "take"),
    )
)
"""Operators that read or write at given places."""


class _Origin(NamedTuple):
    """The computation of a tensor."""

    is_given: bool
    """True for a function of inputs and weights by local operators alone."""
    last: int | None = None
    """Number of the last operator, if that is a local one."""


_GIVEN = _Origin(is_given=True)


class LocalTail:
    """Record of the operators of one call."""

    def __init__(self, inputs: Iterable[object] = ()) -> None:
        """Without an operator.  `inputs`: those of the call."""
        self._origins: dict[int, _Origin] = {}
        """By the address of a tensor's memory."""
        self._works: list[int] = []
        """Modelled bytes of each operator; 0 for one without work."""
        self._above: dict[int, set[int]] = {}
        """Per local operator, the local ones that made its arguments."""
        self._locals: set[int] = set()
        """All local operators."""
        self._head: set[int] = set()
        """Local operators of inputs, weights, and of each other's results."""
        self._followed = FollowedElements(inputs)

    @property
    def whole_bytes(self) -> int:
        """Modelled bytes of all operators, with those for being as many."""
        return self._sum(range(len(self._works)))

    @property
    def local_bytes(self) -> int:
        """The same of all local operators."""
        return self._sum(self._locals)

    @property
    def head_bytes(self) -> int:
        """The same of the local operators before all others."""
        return self._sum(self._head)

    @property
    def chains(self) -> ReferenceChains:
        """Work of the chains that combine many elements, and beside them."""
        found = self._followed.chains
        if not found:
            return ReferenceChains()
        near = self._locals - found
        every = set(range(len(self._works)))
        return ReferenceChains(
            launched_bytes=self._launched(found),
            rest_bytes=self._launched(every - near),
            whole_bytes=self._launched(every),
            local_bytes=sum(self._works[number] for number in near),
        )

    def note(
        self, func: Any, args: Any, kwargs: Any, result: Any, work: int, flops: int = 0
    ) -> None:
        """Note one operator, with its work in modelled bytes; a product with its FLOPs."""
        if func.is_view:
            return
        if func._schema.name in library_work.FREE:
            for tensor in library_work.tensors([result]):  # perhaps in memory of another one
                self._origins.pop(library_work.identity(tensor), None)
            self._followed.forget(library_work.tensors([result]))
            return
        number = len(self._works)
        self._works.append(work)
        taken = library_work.tensors([*args, *kwargs.values()])
        made = [*library_work.tensors([result]), *written(func, args, kwargs)]
        if _is_constant(func, taken):  # like weights and constants of the module
            for tensor in made:
                self._origins.pop(library_work.identity(tensor), None)
            self._followed.forget(made)
            return
        size = max((x.numel() for x in made), default=0)
        combines = func._schema.name in READS or _combines_few(func, args, taken, size, flops)
        origin = self._origin(func, number, taken, size, combines=combines)
        if origin.last == number:
            self._locals.add(number)
            self._head |= {number} if origin.is_given else set()
            self._followed.combine(number, func, args, kwargs, made)
        else:
            self._followed.begin(number, made)
        for tensor in made:
            self._origins[library_work.identity(tensor)] = origin

    def bytes_of(self, outputs: Iterable[object]) -> int:
        """Modelled bytes of the operators of the outputs' tails."""
        found: set[int] = set()
        lasts = [self._of(tensor).last for tensor in library_work.tensors(outputs)]
        new = {last for last in lasts if last is not None}
        while new:
            found |= new
            new = set().union(*(self._above[each] for each in new)) - found
        return self._sum(found)

    def _sum(self, numbers: Iterable[int]) -> int:
        """Modelled bytes of operators, with their share of those for being as many as all are."""
        works = [self._works[number] for number in numbers if self._works[number]]
        every = sum(map(bool, self._works))
        return sum(works) + library_work.of_launching(every) * len(works) // max(1, every)

    def _launched(self, numbers: Iterable[int]) -> int:
        """Modelled bytes of operators, with those of a launch for each."""
        works = [self._works[number] for number in numbers if self._works[number]]
        return sum(works) + library_work.LAUNCH_BYTES * len(works)

    def _of(self, tensor: torch.Tensor) -> _Origin:
        return self._origins.get(library_work.identity(tensor), _GIVEN)

    def _origin(
        self, func: Any, number: int, taken: list[torch.Tensor], size: int, *, combines: bool
    ) -> _Origin:
        """Origin of the result of `size` elements.  `combines`: each of a few elements, wherever
        these lie.
        """
        name = func._schema.name
        moves = combines or name in library_work.MOVES
        if not (moves or name in POINTWISE or torch.Tag.pointwise in func.tags):
            return _Origin(is_given=False)
        origins = [(self._of(each), each.numel()) for each in taken]
        is_given = all(each.is_given for each, _ in origins)
        if not moves and any(not each.is_given and count < size for each, count in origins):
            return _Origin(is_given=False)  # a statistic is spread over many elements
        self._above[number] = {each.last for each, _ in origins if each.last is not None}
        return _Origin(is_given, number)


def _is_constant(func: Any, taken: list[torch.Tensor]) -> bool:
    """Test whether a result takes no value of a tensor and none at random: positions, a mask's
    ones.
    """
    name = func._schema.name
    is_random = torch.Tag.nondeterministic_seeded in func.tags
    return name in library_work.FILLING or not (taken or is_random)


def _combines_few(func: Any, args: Any, taken: list[torch.Tensor], size: int, flops: int) -> bool:
    """Test whether each result of an operator follows from FEW elements at the most: of a product
    by its terms, of a sum or a pool by the number of its results, of a batch norm by its mode.
    """
    if flops:
        return flops <= 2 * FEW * size
    if "batch_norm" in func._schema.name:
        names = [each.name for each in func._schema.arguments]
        return "no_training" in func._schema.name or not args[names.index("training")]
    return size < max((x.numel() for x in taken), default=0) <= FEW * size
