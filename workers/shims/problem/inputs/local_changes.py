"""Changes to a small part of a tensor, at random places.

A candidate may look at a sample of its inputs (the first row, every 16th, the corners of a mask)
and leave work out if they look usual.  Changed inputs are recognised by such a look if all of them
are changed, and seldom if a few are.  Most changes are made where samples seldom look: neither in
the first quarter of a dimension, nor at its middle or its end, nor at multiples of 2, 3, 5 or 7.
All functions draw from torch's seeded generator.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

FEW = 1 / 64
"""Largest share of the rows that are changed; one at least."""

SECLUDED, NARROWED = 3 / 4, 7 / 8
"""Shares of the changes whose slices are secluded, and which are at secluded places of them."""

STEPS = 2 * 3 * 5 * 7
"""Secluded places have no divisor in common with this number."""

STRETCH = 1 << 16
"""Most indices that are considered."""

PART = 4
"""Divisor of a size: the number of consecutive slices that are changed along one dimension."""

Change = Callable[[torch.Tensor], torch.Tensor]


def in_few_rows(x: torch.Tensor, change: Change, *, whole: int = 1) -> torch.Tensor:
    """The tensor with a part of it replaced by `change(part)`: a few slices along a random
    dimension but the last, at their secluded places, or at all but the ends.  The last `whole`
    dimensions are not cut: 0 for a change to elements, 1 to rows, 2 to matrices; fewer if no other
    dimension has several slices.
    """
    return _in_slices(x, change, whole, lambda size, _: (1, int(FEW * size)))


def in_secluded_places(
    x: torch.Tensor, change: Change, *, whole: int = 0, least: int = 1
) -> torch.Tensor:
    """The same with more slices, `least` of them if there are so many, for changes that make no
    element large: such a change would not show in a few.
    """
    return _in_slices(x, change, whole, lambda _, count: (max(least, count // 2),) * 2)


def in_some_slices(x: torch.Tensor, change: Change, along: int) -> torch.Tensor:
    """The tensor with some whole slices along a dimension replaced, at most half of those at its
    secluded places: rows or columns of all matrices.
    """
    front = x.movedim(along, 0)
    changed = _in_slices(front, change, x.dim() - 1, lambda _, count: (1, count // 2))
    return changed.movedim(0, along)


def _in_slices(
    x: torch.Tensor, change: Change, whole: int, bounds: Callable[[int, int], tuple[int, int]]
) -> torch.Tensor:
    """`bounds`: the least and the largest number of changed slices, by the number of all slices
    and of those at secluded places.
    """
    several = _cuttable(x, whole)
    if not several:
        return x
    rows = several[:-1] if several[0] < x.dim() - 1 == several[-1] else several
    along = rows[_below(len(rows))]
    apart, size = places(x.shape[along]), x.shape[along]
    possible = apart if _happens(SECLUDED) else places(size, secluded=False)
    are_narrow = _happens(NARROWED)
    others = {dim: places(x.shape[dim], secluded=are_narrow) for dim in several if dim != along}
    changed = _within(x, {along: _some(possible, *bounds(size, len(apart))), **others}, change)
    return changed if changed.stride() == x.stride() else x.clone().copy_(changed)


def places(size: int, *, secluded: bool = True) -> torch.Tensor:
    """The indices along a dimension where samples seldom look, one at least; without `secluded` all
    but the first, the last and that in the middle.  Of a long dimension those of a random stretch.
    """
    first = size // PART if secluded else 0
    if size - first > STRETCH:
        first += _below(size - first - STRETCH)
    at = torch.arange(first, min(size, first + STRETCH))
    inner = at[(at > 0) & (at != size // 2) & (at < size - 1)]
    apart = inner[torch.gcd(inner, torch.tensor(STEPS)) == 1] if secluded else inner
    return next((each for each in (apart, inner, at[-1:]) if len(each)), at)


def _within(x: torch.Tensor, chosen: dict[int, torch.Tensor], change: Change) -> torch.Tensor:
    """The tensor with a part replaced by `change(part)`: that at the `chosen` indices along some
    dimensions.
    """
    if not chosen:
        return change(x)
    (along, indices), *others = chosen.items()
    indices = indices.to(x.device)
    part = _within(x.index_select(along, indices), dict(others), change)
    return x.index_copy(along, indices, part)


def _cuttable(x: torch.Tensor, whole: int) -> list[int]:
    """Dimensions of several slices but for the last `whole`, or for fewer if there is none."""
    for kept in range(min(whole, x.dim()), -1, -1):
        several = [dim for dim, size in enumerate(x.shape[: x.dim() - kept]) if size > 1]
        if several:
            return several
    return []


def _some(of: torch.Tensor, least: int, most: int) -> torch.Tensor:
    """Some of the indices, one at least; small numbers are as likely as large ones."""
    least, most = max(1, least), max(1, least, most)
    count = round(least * (most / least) ** float(torch.rand(())))
    return of[torch.randperm(len(of))[:count]]


def in_a_quarter(x: torch.Tensor, change: Change) -> torch.Tensor:
    """The tensor with a box of it replaced by `change(box)`: consecutive slices along two random
    dimensions, a quarter of them and two at least; all of it if no dimension has four.
    """
    wide = [dim for dim, size in enumerate(x.shape) if size >= PART]
    changed = x.clone()
    box, source = changed, x
    for at in torch.randperm(len(wide))[:2].tolist():
        along = wide[at]
        size = max(2, x.shape[along] // PART)
        first = _below(x.shape[along] - size + 1)
        box, source = box.narrow(along, first, size), source.narrow(along, first, size)
    box.copy_(change(source))
    return changed


def with_equal_halves(rows: torch.Tensor) -> torch.Tensor:
    """Rows along the last dimension; the second half repeats the first."""
    half = rows.shape[-1] // 2
    repeated = rows.clone()
    repeated[..., half : 2 * half] = rows[..., :half]
    return repeated


def with_equal_pairs(rows: torch.Tensor) -> torch.Tensor:
    """Rows along the last dimension, in which every second element repeats the one before."""
    even = rows.shape[-1] // 2 * 2
    repeated = rows.clone()
    repeated[..., 1:even:2] = rows[..., :even:2]
    return repeated


def in_order(rows: torch.Tensor) -> torch.Tensor:
    """Rows along the last dimension, largest first: with equal halves, too, the largest are there
    twice.
    """
    return rows.sort(dim=-1, descending=True).values


def _happens(share: float) -> bool:
    return bool(torch.rand(()) < share)


def _below(bound: int) -> int:
    return int(torch.randint(bound, ()))
