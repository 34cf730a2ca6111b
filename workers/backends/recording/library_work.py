"""Account of the library's work in one call on the CPU device, kept by a dispatch mode.

Interpreted kernels are a thousand times slower than the library, so their time is no measure.  The
work of both is modelled in one unit, the bytes that a GPU moves in the same time: for an operator
the bytes that it reads and writes, or its arithmetic; for an interpreted kernel its loads, stores
and products.  Operators count wherever they are called: in host code, in a launch's hook or grid
function, in the body of an interpreted kernel.

Work outside of torch is not seen.  numpy on a tensor's memory, and Python on its elements, are
charged when the memory is exported (`EXPORTS`), and so are writes of an operator or a kernel into
memory that torch did not allocate.  This does not guard against another thread, or a custom
operator's body, that writes there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple, TypeGuard

import torch
from torch.utils.flop_counter import flop_registry

from app.domain.kernel_profile import LAUNCH_MB
from workers.backends.recording import execution_trace, products
from workers.backends.support.dispatch_mode import Watching, written

FLOPS_PER_BYTE = 20
"""fp32 operations in the time of a byte: some 60 TFLOP/s and 3.3 TB/s on an H100."""

OPERATOR_BYTES, LAUNCH_BYTES = 1 << 16, LAUNCH_MB << 20
"""Bytes that stand for one more operator in comparisons of two ways to compute an answer: for each,
and for each beyond MANY.  With those of a launch for all, a few operators more would tell in small
problems.
"""

MANY = 512
"""Operators of a call from which on launching them takes most of its time: a loop over rows."""

EXPORT_PASSES = 60
"""Passes that are charged for a tensor whose memory is exported: its use by numpy is not seen.  Two
kernels that read and write as much once are below the limit of app/detectors/lazy_optimisation.py.
"""

EXPORTS = (
    (torch.Tensor, "numpy"),
    (torch.Tensor, "tolist"),
    (torch.Tensor, "__dlpack__"),
    (torch.Tensor, "__reduce_ex__"),
    (torch._C, "_to_dlpack"),
    (torch._C, "_to_dlpack_versioned"),
    (torch.utils.dlpack, "to_dlpack"),
    (torch, "to_dlpack"),
)
"""Functions that export a tensor's memory or its elements out of torch."""

MOST_OPERATORS = 4000
"""Most operators that are kept; work of later ones is added to the last."""

FREE = frozenset(
    {
        "aten::empty",
        "aten::empty_like",
        "aten::empty_strided",
        "aten::new_empty",
        "aten::new_empty_strided",
        "aten::set_",
        "aten::resize_",
        "aten::detach",
        "aten::alias",
        "aten::_local_scalar_dense",
        "aten::as_strided_",
        "aten::is_same_size",
        "aten::lift_fresh",
        "aten::squeeze_",
        "aten::swapaxes_",
        "aten::swapdims_",
        "aten::t_",
        "aten::transpose_",
        "aten::unsqueeze_",
    }
)
"""Operators that access at most one element."""

OVERWRITING = frozenset({"aten::copy_", "aten::fill_", "aten::zero_"})
"""Operators that do not read their first argument, which they write to."""

FILLING = frozenset(
    f"aten::{form}"
    for value in ("zeros", "ones", "full")
    for form in (f"{value}_like", f"new_{value}")
)
"""Operators that use only the shape and type of their argument."""

MOVES = frozenset(
    f"aten::{name}"
    for name in (
        *("_to_copy", "cat", "clone", "constant_pad_nd", "copy_", "flip", "repeat", "roll"),
        *("slice_scatter", "select_scatter", "stack", "_unsafe_view"),
    )
)
"""Operators that move or convert elements."""

COPIES = frozenset({"aten::copy_", "aten::_to_copy", "aten::clone"})
"""Operators with which the interpreter copies a kernel's arguments to the host and back."""


class Work(NamedTuple):
    """Work of interpreted kernels so far."""

    moved_bytes: int = 0
    flops: int = 0

    def moved(self, count: int) -> Work:
        """Add bytes."""
        return Work(self.moved_bytes + count, self.flops)

    def computed(self, count: int) -> Work:
        """Add operations of products."""
        return Work(self.moved_bytes, self.flops + count)

    def since(self, before: Work) -> int:
        """Modelled bytes of the work done since then."""
        return modelled(self.moved_bytes - before.moved_bytes, self.flops - before.flops)


class Operator(NamedTuple):
    """One operator of torch with work."""

    name: str
    began_ns: int
    taken_ns: int
    work_bytes: int
    product_flops: int = 0
    """FLOPs of a matrix product or convolution; 0 for others."""


def modelled(moved_bytes: int, flops: int) -> int:
    """Bytes that a GPU moves in the time of both, whichever takes longer."""
    return max(moved_bytes, flops // FLOPS_PER_BYTE)


_storage = torch.Tensor.untyped_storage
"""Bound at import, before a candidate could replace it."""

_unseen: list[frozenset[str] | None] = []
"""Innermost last: names of operators that are not charged because the interpreter itself calls
them; None for all operators.
"""


@contextmanager
def unseen() -> Iterator[None]:
    """Context of operators that are not charged: the interpreter computes a kernel's function by
    them.
    """
    _unseen.append(None)
    try:
        with execution_trace.accounted():
            yield
    finally:
        _unseen.pop()


@contextmanager
def copying() -> Iterator[None]:
    """Context in which copies alone are not charged: the interpreter copies a kernel's arguments to
    the host and back.  An argument may be an object of the candidate that computes when it is
    accessed.
    """
    _unseen.append(COPIES)
    try:
        yield
    finally:
        _unseen.pop()


_entered: list[Account] = []
"""Active accounts, innermost last."""

_watched: list[str] = []
"""Functions of EXPORTS that have been wrapped."""


def watch_exports() -> None:
    """Make the functions in EXPORTS charge the tensor to the active account.  Called before the
    candidate's source is executed, so that it finds only the wrapped functions.
    """
    for place, name in EXPORTS:
        if hasattr(place, name) and f"{place} {name}" not in _watched:
            _watched.append(f"{place} {name}")
            setattr(place, name, _charged(getattr(place, name)))


def _charged(original: Callable[..., Any]) -> Callable[..., Any]:
    def exported(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if not _entered or not isinstance(tensor, torch.Tensor):
            return original(tensor, *args, **kwargs)
        account = _entered.pop()  # one such function calls another
        try:
            account.charge_export(tensor)
            return original(tensor, *args, **kwargs)
        finally:
            _entered.append(account)

    return exported


class Account(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that counts every operator while it is active."""

    def __init__(self, *, beyond: bool = True, arena: range = range(0)) -> None:
        """`beyond`: also count operators that this mode does not see (execution_trace.py), at 2 ms
        for each operator; needed only if the candidate has kernels of its own.  `arena`: addresses
        of the memory that the candidate was given.
        """
        super().__init__()
        self._beyond = beyond
        self._arena = arena
        self.operators: list[Operator] = []
        self._within = ExitStack()

    def __enter__(self) -> Account:
        """Activate the mode."""
        watch_exports()
        _entered.append(self)
        if self._beyond:
            self._within.enter_context(self._traced())
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """Deactivate the mode."""
        super().__exit__(*error)
        self._within.close()
        _entered.remove(self)

    def charge_export(self, tensor: torch.Tensor) -> None:
        """Charge a tensor whose elements code outside of torch can access from here on."""
        self._note(
            "numpy", time.perf_counter_ns(), EXPORT_PASSES * tensor.numel() * tensor.element_size()
        )

    @contextmanager
    def launching(self, tensors: Iterable[object]) -> Iterator[None]:
        """Context of a kernel's launch with these arguments.  Arguments in memory that torch did
        not allocate are charged as exported if the kernel changes them.
        """
        with unseen():
            others = [(each, _copied(each)) for each in tensors if self._is_foreign(each)]
        yield
        for tensor, before in others:
            with unseen():
                is_changed = not torch.equal(before, _copied(tensor))
            if is_changed:
                self.charge_export(tensor)

    def _is_foreign(self, value: object) -> TypeGuard[torch.Tensor]:
        """Test whether a tensor's memory was neither allocated by torch for this process alone, nor
        given to the candidate.
        """
        if not isinstance(value, torch.Tensor) or not value.numel():
            return False
        try:
            storage = _storage(value)
            private = storage.resizable() and not storage.is_shared()
        except (RuntimeError, NotImplementedError):  # sparse, opaque: without a storage
            return False
        return not private and value.data_ptr() not in self._arena

    @contextmanager
    def _traced(self) -> Iterator[None]:
        """Context after which operators that this mode does not see are added."""
        unseen: list[execution_trace.Unseen] = []
        with execution_trace.trace(unseen, FREE):
            yield
        for each in unseen:
            self._note(each.name, time.perf_counter_ns(), modelled(each.moved_bytes, each.flops))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace != "aten":  # a custom operator: the trace shows its body
            return func(*args, **kwargs)
        began = time.perf_counter_ns()
        with execution_trace.accounted():
            result = func(*args, **kwargs)
        name = func._schema.name
        if func._schema.is_mutable and name not in FREE and not self._is_uncharged(name):
            for tensor in filter(self._is_foreign, written(func, args, kwargs)):
                self.charge_export(tensor)
        work = work_of(func, args, kwargs, result)
        if work:
            self._note(name, began, work, products.of_call(func, args, kwargs, result))
        return result

    def _is_uncharged(self, name: str) -> bool:
        return bool(_unseen) and (_unseen[-1] is None or name in _unseen[-1])

    def _note(self, name: str, began: int, work: int, product_flops: int = 0) -> None:
        if self._is_uncharged(name):
            return
        if len(self.operators) < MOST_OPERATORS:
            taken_ns = time.perf_counter_ns() - began
            self.operators.append(Operator(name, began, taken_ns, work, product_flops))
        else:
            last = self.operators[-1]
            self.operators[-1] = last._replace(
                name="…", work_bytes=last.work_bytes + work, product_flops=0
            )


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """Private copy of a tensor's bytes."""
    return tensor.detach().clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)


def work_of(func: Any, args: Any, kwargs: Any, result: Any) -> int:
    """Modelled bytes of one operator; 0 for one that accesses no memory or only makes a view."""
    if func._schema.name in FREE:
        return 0
    given, returned = tensors([*args, *kwargs.values()]), tensors([result])
    known = set(map(identity, given))
    new = [tensor for tensor in returned if identity(tensor) not in known]
    if not new and returned and not func._schema.is_mutable:
        return 0
    # A tensor that is written in place is among the arguments: it is read and written.
    outputs = new if not func._schema.is_mutable else returned
    given = (
        []
        if func._schema.name in FILLING
        else given[1:]
        if func._schema.name in OVERWRITING
        else given
    )
    sizes = ([each.numel() for each in given], [each.numel() for each in outputs])
    weight = given[1].shape if len(given) > 1 else ()
    flops = execution_trace.arithmetic(func._schema.name, *sizes, weight)
    formula = flop_registry.get(func._overloadpacket)
    if product := products.of_call(func, args, kwargs, result):
        flops = product  # without the formula, which takes as long as twenty operators
    elif formula is not None:
        with suppress(Exception):  # a formula that does not know these arguments
            flops = int(formula(*args, **kwargs, out_val=result))
    return modelled(sum(map(_bytes, given)) + sum(map(_bytes, outputs)), flops)


def of_launching(count: int) -> int:
    """Modelled bytes for being so many operators, whatever their work is."""
    return OPERATOR_BYTES * count + LAUNCH_BYTES * max(0, count - MANY)


def tensors(values: Any) -> list[torch.Tensor]:
    """Tensors among values, and in lists and tuples of them."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += tensors(value)
    return found


def _bytes(tensor: torch.Tensor) -> int:
    """Bytes of the distinct elements: an expanded tensor is read once."""
    size = int(tensor.numel() * tensor.element_size())
    try:
        return min(size, _storage(tensor).nbytes())
    except (RuntimeError, NotImplementedError):  # sparse, or opaque
        return size


def identity(tensor: torch.Tensor) -> int:
    """A number that all tensors over the same memory share."""
    try:
        return _storage(tensor).data_ptr()
    except (RuntimeError, NotImplementedError):
        return id(tensor)
