"""The work of one call of the reference, by which a candidate's use of the library is judged."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from app.domain.kernel_profile import ReferenceChains

MOST_PRODUCTS = 4096
"""Most products of a call that are listed."""

_NAME_CHARS, _MOST_NAMES = 200, 32
"""Longest name of a parameter, and most names: those of a spec's constants."""

_LARGEST = 1 << 62
"""Exclusive upper limit of every number of it."""


@dataclass(frozen=True, kw_only=True)
class ReferenceWork:
    """Arithmetic and memory traffic of one call; empty if the model does not run under a dispatch
    mode.
    """

    flops: int | None = None
    """Floating-point operations by torch's formulas (workers/shims/problem/observers/flops.py);
    None if it counts none.
    """
    products: tuple[int, ...] = ()
    """FLOPs of each matrix product and convolution, in the order of the calls; empty if there are
    more than MOST_PRODUCTS.
    """
    rest_bytes: int = 0
    """Bytes that all other operators read and write, or that a GPU moves in the time of their
    arithmetic.
    """
    rest_operators: int = 0
    """Number of those operators."""
    whole_bytes: int = 0
    """The work of all operators, as bytes that a GPU moves in the same time; 0 if it is not known.
    """
    local_bytes: int = 0
    """The part of it in local operators, elementwise ones and others of a few elements."""
    head_bytes: int = 0
    """The part in the local head, those operators of inputs before all others."""
    tail_bytes: int | None = None
    """The part in the local tail (workers/shims/problem/observers/local_tail.py);
    None if it is not known.
    """
    chains: ReferenceChains = field(default_factory=ReferenceChains)
    on_weights: tuple[str, ...] = ()
    """Parameters on which a good part of the work is done without the inputs
    (workers/shims/problem/observers/weight_work.py).
    """

    @classmethod
    def checked(cls, fields: dict[str, Any]) -> ReferenceWork:
        """Read it from JSON written by the reference's process.  Raises ValueError."""
        flops = None if fields["flops"] is None else int(fields["flops"])
        products = tuple(int(each) for each in fields["products"])
        names = ("rest_bytes", "rest_operators", "whole_bytes", "local_bytes", "head_bytes")
        rest = {name: int(fields[name]) for name in names}
        tail = None if fields["tail_bytes"] is None else int(fields["tail_bytes"])
        chained = [each.name for each in dataclasses.fields(ReferenceChains)]
        chains = {name: int(fields["chains"][name]) for name in chained}
        numbers = (flops or 0, tail or 0, *products, *rest.values(), *chains.values())
        if len(products) > MOST_PRODUCTS or not all(0 <= each < _LARGEST for each in numbers):
            raise ValueError(f"expected numbers of operations and bytes, got {str(fields)[:80]}")
        weights = tuple(str(name)[:_NAME_CHARS] for name in fields["on_weights"])[:_MOST_NAMES]
        return cls(
            flops=flops,
            products=products,
            tail_bytes=tail,
            chains=ReferenceChains(**chains),
            on_weights=weights,
            **rest,
        )
