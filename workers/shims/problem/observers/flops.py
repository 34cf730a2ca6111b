"""FLOPs of one call by torch's own formulas, and the memory traffic of operators that are no
products.

torch.utils.flop_counter.FlopCounterMode counts the same, but imports torch's
compiler (workers/backends/support/dispatch_mode.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.utils.flop_counter import flop_registry

from workers.backends.recording import library_work, products
from workers.backends.support.dispatch_mode import Watching
from workers.protocol import layout
from workers.protocol.reference_work import MOST_PRODUCTS, ReferenceWork
from workers.shims.problem.answers.tf32_products import place_of
from workers.shims.problem.observers.local_tail import LocalTail


class FlopCounter(Watching):  # type: ignore[no-untyped-call]
    """Counter of the FLOPs of products, convolutions and attention, of which a multiply-add counts
    as two, and of the work of all other operators.
    """

    def __init__(self, inputs: Iterable[object] = ()) -> None:
        """Starts at zero.  `inputs`: those of the call."""
        super().__init__()
        self.total = 0
        self.bytes = 0
        """Work of all operators, products included, in modelled bytes."""
        self.places: set[str] = set()
        """Places of all products (tf32_products.place_of)."""
        self._tail = LocalTail(inputs)
        self._products: list[int] = []
        self._rest_bytes = 0
        self._rest_operators = 0

    @property
    def work(self) -> ReferenceWork:
        """Work of all calls so far."""
        return ReferenceWork(
            flops=self.total or None,
            products=tuple(self._products) if len(self._products) <= MOST_PRODUCTS else (),
            rest_bytes=self._rest_bytes,
            rest_operators=self._rest_operators,
            whole_bytes=self._tail.whole_bytes,
            local_bytes=self._tail.local_bytes,
            head_bytes=self._tail.head_bytes,
            chains=self._tail.chains,
        )

    def tail_bytes(self, outputs: Any) -> int:
        """The part of the work in the elementwise tail of a call with these outputs."""
        return self._tail.bytes_of(layout.values(outputs))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.places |= {place_of(func)}
        product = products.of_call(func, args, kwargs or {}, result)
        formula = flop_registry.get(func._overloadpacket)
        if product:
            self.total += product
        elif formula is not None:
            self.total += int(formula(*args, **(kwargs or {}), out_val=result))
        work = library_work.work_of(func, args, kwargs or {}, result)
        self.bytes += work
        self._tail.note(func, args, kwargs or {}, result, work, product)
        if product:
            self._products.append(product)
        elif work:
            self._rest_bytes += work
            self._rest_operators += 1
        return result
