"""EVALUATE: the share of a profiled call in matrix products and convolutions that both sides leave
to the library.

A candidate's product counts as the reference's if it may be a piece of one: in the order of their
sizes none of them is larger than the reference's.  So a product may be split, which makes it no
faster, and not be merged with another.  The largest count first, until they have the reference's
arithmetic; further ones are work that the reference does not do.  None counts if all of them have
less arithmetic than the reference's: they compute something else.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.backend import OWN_ORIGINS
from workers.protocol.launch_records import Launch

SAME = 0.01
"""Relative difference of arithmetic that is disregarded."""


def share(seen: Sequence[Launch], products: Sequence[int]) -> float | None:
    """Share of the kernels' time, or of their modelled work, in products of the library that the
    reference makes, too; `products`: FLOPs of each of the reference's.  None if the reference has
    none, or nothing was timed.
    """
    computing = [launch for launch in seen if launch.origin != "transfer"]
    modelled = any(launch.work_bytes for launch in computing)
    whole = sum(_weight(launch, modelled=modelled) for launch in computing)
    if not products or not whole:
        return None
    flops: dict[int, int] = {}
    weights: dict[int, int] = {}
    for launch in computing:
        if launch.product_flops and launch.origin not in OWN_ORIGINS:
            number = launch.operator
            flops[number] = launch.product_flops
            weights[number] = weights.get(number, 0) + _weight(launch, modelled=modelled)
    shared = _shared(flops, products)
    return sum(weights[number] for number in shared) / whole


def _shared(flops: dict[int, int], products: Sequence[int]) -> list[int]:
    """Numbers of the operators that do the reference's arithmetic and no more."""
    theirs, left = sorted(products, reverse=True), sum(products)
    ordered = sorted(flops, key=lambda number: flops[number], reverse=True)
    if any(
        flops[number] > (1 + SAME) * product
        for number, product in zip(ordered, theirs, strict=False)
    ):
        return []
    found = []
    for number in ordered:
        if flops[number] <= left + SAME * sum(products):
            left -= flops[number]
            found.append(number)
    return found if left <= SAME * sum(products) else []


def _weight(launch: Launch, *, modelled: bool) -> int:
    return launch.work_bytes if modelled else launch.duration_ns
