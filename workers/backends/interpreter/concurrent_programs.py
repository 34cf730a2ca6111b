"""Concurrency of a GPU's programs, in Triton's interpreter.

* The programs of a launch run in no defined order on a GPU.  The interpreter runs them from first
  to last, so that a kernel which depends on that order (a carry left in memory by the previous
  program, sums without atomic operations, a last program that adds up the parts of the others) is
  right in the interpreter only.  Here each launch has a random order.  A kernel that waits for
  other programs in a loop keeps the interpreter's order: in another one it would wait for ever.
* A program does not see the stores of others in the same launch until it executes an atomic
  operation, by which programs synchronise: if two programs add to one element by a load and a
  store, one addition is lost.

This does not guard against lanes of one program that read what other lanes have just stored.
"""

from __future__ import annotations

import ast
import inspect
import random
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
from triton._C.libtriton import interpreter as native
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder

_random = random.SystemRandom()


TRACKED = 1 / 2
"""Share of the launches in which stores of other programs are hidden; hiding takes time."""

MOST_STORES = 512
"""Most stores of a launch that are hidden; later ones are visible."""


class RunningLaunch:
    """The launch in progress: the order of its programs, and their stores."""

    def __init__(self, sizes: tuple[int, ...], *, waits: bool) -> None:
        """`sizes`: of the grid; `waits`: whether programs wait for each other."""
        several = not waits and int(np.prod(sizes)) > 1
        self.order = drawn_order(int(np.prod(sizes))) if several else None
        self._tracks = several and _random.random() < TRACKED
        self._stores: list[Store] = []
        self._has_synchronised = False
        self._program = 0

    def begin(self, program: int) -> None:
        """Begin a program."""
        self._program, self._has_synchronised = program, False

    def synchronise(self) -> None:
        """Record that the program has executed an atomic operation."""
        self._has_synchronised = True

    def note_store(self, pointers: Any, value: Any, mask: Any) -> None:
        """Keep the values that the next store overwrites."""
        if self._tracks and len(self._stores) < MOST_STORES:
            shape = pointers.shape
            kept, old = np.broadcast_to(mask, shape), value.dtype
            before = native.load(pointers, mask, np.zeros(shape, old), old)
            if kept.any():
                self._stores.append(Store(self._program, pointers[kept], before[kept]))

    def stale(self, pointers: Any, mask: Any, loaded: Any) -> Any:
        """Loaded values as they were before the stores of other programs in this launch."""
        if not self._stores or self._has_synchronised or not mask.any():
            return loaded
        asked = pointers[np.broadcast_to(mask, pointers.shape)]
        lowest, highest = asked.min(), asked.max()
        near = [each for each in self._stores if each.lowest <= highest and each.highest >= lowest]
        for store in reversed([each for each in near if each.program != self._program]):
            loaded = store.undone(pointers, loaded)
        for store in (each for each in near if each.program == self._program):
            hidden = np.isin(pointers, store.addresses)
            loaded = np.where(hidden, native.load(pointers, mask, loaded, loaded.dtype), loaded)
        return loaded


class Store:
    """Values overwritten by a store of one program."""

    def __init__(self, program: int, addresses: Any, before: Any) -> None:
        """`before`: values at these addresses."""
        order = np.argsort(addresses, kind="stable")
        self.program, self.addresses, self._before = program, addresses[order], before[order]
        self.lowest, self.highest = self.addresses[0], self.addresses[-1]

    def undone(self, pointers: Any, loaded: Any) -> Any:
        """Loaded values, with those before this store at its addresses."""
        if loaded.dtype != self._before.dtype:
            return loaded
        at = np.minimum(np.searchsorted(self.addresses, pointers), len(self.addresses) - 1)
        return np.where(self.addresses[at] == pointers, self._before[at], loaded)


def install() -> None:
    """Install these properties in the interpreter."""
    _shuffle_programs()
    _hide_stores()


def _shuffle_programs() -> None:
    builder: Any = InterpreterBuilder
    executor: Any = GridExecutor
    run, set_sizes, set_index = executor.__call__, builder.set_grid_dim, builder.set_grid_idx

    def running(self: Any, *args: Any, **kwargs: Any) -> Any:
        builder.waits = waits(self.fn)
        try:
            return run(self, *args, **kwargs)
        finally:
            builder.launch = None

    def sizing(self: Any, *sizes: int) -> None:
        set_sizes(self, *sizes)
        builder.launch = RunningLaunch(sizes, waits=builder.waits)

    def indexing(self: Any, x: int, y: int, z: int) -> None:
        _, rows, columns = self.grid_dim
        program = (x * rows + y) * columns + z
        if self.launch.order is not None:
            program = int(self.launch.order[program])
            x, y, z = program // (rows * columns), program // columns % rows, program % columns
        self.launch.begin(program)
        set_index(self, x, y, z)

    executor.__call__ = running
    builder.set_grid_dim, builder.set_grid_idx, builder.launch = sizing, indexing, None


def _hide_stores() -> None:
    builder: Any = InterpreterBuilder
    load, store = builder.create_masked_load, builder.create_masked_store
    changed, exchanged = builder.create_atomic_rmw, builder.create_atomic_cas

    def loading(self: Any, pointers: Any, mask: Any, *args: Any, **kwargs: Any) -> Any:
        found = load(self, pointers, mask, *args, **kwargs)
        if self.launch is not None:
            found.data = self.launch.stale(pointers.data, _bare(mask), found.data)
        return found

    def storing(self: Any, pointers: Any, value: Any, mask: Any, *args: Any, **more: Any) -> Any:
        if self.launch is not None:
            self.launch.note_store(pointers.data, value.data, _bare(mask))
        return store(self, pointers, value, mask, *args, **more)

    def changing(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.launch is not None:
            self.launch.synchronise()
        return changed(self, *args, **kwargs)

    def exchanging(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.launch is not None:
            self.launch.synchronise()
        return exchanged(self, *args, **kwargs)

    builder.create_masked_load, builder.create_masked_store = loading, storing
    builder.create_atomic_rmw, builder.create_atomic_cas = changing, exchanging


def _bare(mask: Any) -> Any:
    """The array of a mask; the mask of a block pointer with bounds is a bare array already."""
    return mask if isinstance(mask, np.ndarray) else mask.data


def drawn_order(count: int) -> Any:
    """The numbers of a grid's programs in a random order."""
    return np.random.Generator(np.random.PCG64(_random.getrandbits(64))).permutation(count)


_known: dict[Any, bool] = {}


def waits(function: Callable[..., Any]) -> bool:
    """True if a kernel may wait for another program: a `while` that reads memory in its
    condition, or with a body in which an atomic operation, a volatile load or a function of the
    source's own may read it.
    """
    code = getattr(function, "__code__", None)
    if code not in _known:
        _known[code] = _may_wait(function)
    return _known[code]


def _may_wait(function: Callable[..., Any]) -> bool:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError):
        return False
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.While)]
    return any(
        _reads(call, in_condition=inside is loop.test)
        for loop in loops
        for inside in (loop.test, *loop.body)
        for call in ast.walk(inside)
        if isinstance(call, ast.Call)
    )


def _reads(call: ast.Call, *, in_condition: bool) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id not in ("range", "min", "max")
    if not isinstance(call.func, ast.Attribute):
        return True
    is_volatile = any(each.arg == "volatile" for each in call.keywords)
    return call.func.attr.startswith("atomic") or (
        call.func.attr == "load" and (in_condition or is_volatile)
    )
