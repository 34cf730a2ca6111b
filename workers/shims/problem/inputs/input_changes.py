"""Changes to a problem's inputs that reach branches of its reference
(reaching_inputs.py): scaled, negated, shuffled, with named values.

All draw from torch's seeded generator.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import torch

from workers.protocol import layout
from workers.protocol.roundoff import computable
from workers.shims.problem.inputs import input_domain, local_changes, redrawn_inputs

SCATTERED = 1 / 256
"""Share of scattered elements that are scaled."""

NAMED_SHARE, PART_SHARE, NAN_SHARE = 1 / 8, 1 / 2, 1 / 64
"""Share of the elements of an input, or of a part of it, that receive a value the reference names;
of NaN, which spreads, fewer.
"""


DEEP = 8.0
"""Factor on values that are moved away from zero, as on those of the variant `scaled`."""


@dataclass(frozen=True)
class Scaling:
    """Change of inputs by which values reach limits."""

    factor: float
    is_scattered: bool = False
    """True if scattered elements are scaled, in place of every second row."""
    leaves_bounds: bool = False
    """True if inputs between −1 and 1 are scaled, too."""
    scales_peaks: bool = False
    """True if the largest elements of the other rows are scaled as well: a softmax overflows
    where they lie outside of the part that a candidate looks at.
    """
    is_whole: bool = False
    """True if all elements are scaled, as a norm of a whole tensor needs."""
    kept: frozenset[int] = frozenset()
    """Inputs that are not scaled, by index among the leaves."""


def changed(inputs: list[Any], some: Collection[int], change: Callable[[Any], Any]) -> list[Any]:
    """The inputs with `change` applied to the leaves at these indices."""
    leaves = [change(x) if at in some else x for at, x in enumerate(layout.values(inputs))]
    return redrawn_inputs.with_leaves(inputs, leaves)


def with_named(
    inputs: list[Any], named: tuple[tuple[int, float], ...], *, in_part: bool = False
) -> list[Any]:
    """The inputs with some elements of leaves replaced by values: pairs of index and value.
    `in_part`: only at places where samples seldom look (local_changes).
    """
    leaves = list(layout.values(inputs))
    for at, value in named:
        x = leaves[at]
        share = NAN_SHARE if math.isnan(value) else PART_SHARE if in_part else NAMED_SHARE
        change = functools.partial(_with_value, value=value, share=share)
        leaves[at] = local_changes.in_secluded_places(x, change) if in_part else change(x)
    return redrawn_inputs.with_leaves(inputs, leaves)


def _with_value(x: torch.Tensor, value: float, share: float) -> torch.Tensor:
    """The tensor with this share of its elements replaced, one at least."""
    chosen = torch.rand(x.shape, device=x.device) < share
    chosen.view(-1)[torch.randint(x.numel(), (), device=x.device)] = True
    return torch.where(chosen, torch.tensor(value, device=x.device).to(x.dtype), x)


def negated(x: torch.Tensor) -> torch.Tensor:
    """The tensor with half of its elements negated, if it keeps its structure."""
    changed = with_signs(x)
    return changed if input_domain.keeps_structure(x, changed, signs=False) else x


LOOSE = 0.25
"""Largest change of a number that loosens a tensor."""

HIDDEN = 1 / 16
"""Share of the rows of a mask that hide everything, and of those that hide nothing."""

NEAREST = 20
"""Least of n numbers that keep away from zero, in parts of the largest over n: even ones keep so
far away with a probability of e^-20.
"""

CHANCE = 1e-6
"""Probability that a mask shows a place in every row by chance, below which it is meant to."""


def emptied(x: torch.Tensor) -> torch.Tensor:
    """The tensor with a few rows, and a few samples, of zeros; or, if that breaks its structure
    (they sum to one), with their largest number alone.  Of a mask, rows hide all or nothing.
    """
    if is_mask(x):
        return _with_hidden_rows(x)
    for change in (torch.zeros_like, _with_one_number):
        changed = local_changes.in_few_rows(x, change, whole=1)
        if x.dim() > 2:
            changed = local_changes.in_few_rows(changed, change, whole=x.dim() - 1)
        if input_domain.keeps_structure(x, changed):
            return changed
    return x


def may_be_emptied(x: Any, *, divides: bool) -> bool:
    """Test for a mask or, if the reference `divides`, for floats that are no whole numbers."""
    if not divides or not is_float(x) or x.numel() < 2:
        return is_mask(x)
    return not input_domain.is_whole(x)


def keeps_from_zero(x: Any) -> bool:
    """Test for floats of which none is so near zero as of as many even ones one would be."""
    if not is_float(x) or x.numel() < 2:
        return False
    sizes = x.abs()
    return bool(sizes.amin() * x.numel() > NEAREST * sizes.amax())


def is_mask(x: Any) -> bool:
    """Test for rows of truth values, as such or as integers of both values."""
    if not isinstance(x, torch.Tensor) or x.is_floating_point() or x.is_complex():
        return False
    if x.dim() < 2 or x.numel() < 2 * x.shape[-1] or not x.numel():
        return False
    return x.dtype == torch.bool or tuple(map(int, torch.aminmax(x))) == (0, 1)


def _with_hidden_rows(mask: torch.Tensor) -> torch.Tensor:
    """The mask with some rows along its last dimension empty, one sample, and some rows full.

    Places that it never hides, such as the first key or each row's own, stay in empty rows."""
    changed = mask.clone(memory_format=torch.contiguous_format)
    rows = changed.view(-1, mask.shape[-1])
    order = torch.randperm(len(rows), device=mask.device)
    count = max(1, int(HIDDEN * len(rows)))
    if mask.dim() > 2 and len(mask) > 1:
        changed[int(torch.randint(len(mask), ()))] = 0
    rows[order[:count]] = 0
    rows[order[count : 2 * count]] = 1
    changed.masked_fill_(_never_hidden(mask), 1)
    return changed if changed.stride() == mask.stride() else mask.clone().copy_(changed)


def _never_hidden(mask: torch.Tensor) -> torch.Tensor:
    """Places of a sample's mask that no row hides, though some hide others: columns, and the
    diagonal of a square mask.
    """
    rows = mask.bool().flatten(0, -2)
    shown = rows.sum(0) / len(rows)
    often = shown.where(shown < 1, 0).amax()  # by chance, each column is shown as often
    never = shown == 1
    never &= (often > 0) & (rows.shape[-1] * often ** len(rows) < CHANCE)
    diagonal = mask.diagonal(dim1=-2, dim2=-1)
    if mask.shape[-1] == mask.shape[-2] and diagonal.bool().all():
        others = (rows.sum() - diagonal.numel()) / max(1, rows.numel() - diagonal.numel())
        if float(others) ** diagonal.numel() < CHANCE:
            return never | torch.eye(mask.shape[-1], dtype=torch.bool, device=mask.device)
    return never


def _with_one_number(rows: torch.Tensor) -> torch.Tensor:
    """Rows along the last dimension with their sum in place of the largest number, and zeros."""
    kept = torch.zeros_like(rows)
    places = rows.argmax(dim=-1, keepdim=True)
    return kept.scatter_(-1, places, rows.sum(dim=-1, keepdim=True))


def balanced(x: torch.Tensor) -> torch.Tensor:
    """The tensor with a random sign for each element, if it keeps its structure."""
    changed = torch.where(torch.rand_like(x) < 0.5, x, -x)
    return changed if input_domain.keeps_structure(x, changed, signs=False) else x


def loosened(x: torch.Tensor) -> torch.Tensor:
    """The tensor with each number off by up to a quarter of its own size and of the usual size, on
    the same side of zero if all are; within −1 and 1 if it is.  Whole numbers, such as a mask, are
    smaller by up to a quarter of their own size: zeros stay.
    """
    if input_domain.is_whole(x):
        return x * (1 - LOOSE * torch.rand_like(x))
    low, high = torch.aminmax(x)
    own, usual = (2 * torch.rand_like(x) - 1 for _ in range(2))
    usual = torch.where(low >= 0, usual.abs(), torch.where(high <= 0, -usual.abs(), usual))
    changed = x * (1 + LOOSE * own) + LOOSE * x.square().mean().sqrt() * usual
    return changed.clamp(-1, 1) if input_domain.is_bounded(x) else changed


def may_be_loosened(x: Any) -> bool:
    """Test for floats of which no order and no equal parts are lost."""
    return is_float(x) and x.numel() > 1 and not input_domain.has_order(x)


def with_signs(x: torch.Tensor) -> torch.Tensor:
    """The tensor with half of its elements negated.  If it has several slices along a dimension
    before its last, one in four has no number of its sign, and none near zero: an extreme of
    many numbers of one sign on the other side of zero is otherwise nearly zero.
    """
    mixed = torch.where(torch.rand_like(x) < 0.5, x, -x)
    along = next((dim for dim, size in enumerate(x.shape[:-1]) if size > 1), None)
    if along is None:
        return mixed
    chosen = torch.randperm(x.shape[along], device=x.device)[: -(-x.shape[along] // 4)]
    low, high = torch.aminmax(x)
    opposite = -(x.index_select(along, chosen) + torch.where(high > -low, high, low)) / 2
    return mixed.index_copy(along, chosen, opposite)


def deepened(x: torch.Tensor) -> torch.Tensor:
    """The tensor with a quarter of its slices along the first dimension of several far below zero,
    and as many far above: eight times the upper half of its range.  All extremes within them lie
    there, too.
    """
    along = next((dim for dim, size in enumerate(x.shape) if size > 1), None)
    if along is None:
        return x
    count = -(-x.shape[along] // 4)
    chosen = torch.randperm(x.shape[along], device=x.device)[: 2 * count]
    part = x.index_select(along, chosen)
    far = DEEP * (part.abs() + x.abs().amax()) / 2
    far.narrow(along, 0, count).neg_()
    changed = x.index_copy(along, chosen, far)
    return changed if input_domain.keeps_structure(x, changed) else x


def shuffled(x: torch.Tensor) -> torch.Tensor:
    """The tensor with each row in an order of its own."""
    return x.gather(-1, torch.rand(x.shape, device=x.device).argsort(dim=-1))


def scaled(inputs: list[Any], how: Scaling) -> list[Any]:
    """The inputs with every second row of each tensor scaled, from the first row on, scattered
    elements, or all of them.
    """
    leaves = enumerate(layout.values(inputs))
    changed = [x if at in how.kept else _with_scaled(x, how) for at, x in leaves]
    return redrawn_inputs.with_leaves(inputs, changed)


def _with_scaled(x: Any, how: Scaling) -> Any:
    if not is_float(x) or x.dim() == 0:
        return x
    if how.is_whole:
        changed = how.factor * x
    elif how.is_scattered:
        chosen = torch.rand(x.shape, device=x.device) < SCATTERED
        chosen.view(-1)[torch.randint(x.numel(), (), device=x.device)] = True
        changed = torch.where(chosen, how.factor * x, x)
    else:
        changed = x.clone()
        changed[::2].mul_(how.factor)
        if how.scales_peaks and len(x) > 1:
            changed[1::2] = _with_larger_peaks(x[1::2], how.factor)
    return changed if input_domain.keeps_structure(x, changed, bounds=not how.leaves_bounds) else x


def scalings_of_rows(how: Scaling) -> list[tuple[local_changes.Change, int]]:
    """Changes to a part of a tensor by which values reach limits, and the number of its last
    dimensions that they take as a whole (local_changes.in_few_rows).  Elements or rows are scaled,
    by chance: rows are seen by a sample of columns, and a sum over few elements may reach no limit.
    """
    values = functools.partial(operator.mul, how.factor), int(torch.randint(2, ()))
    peaks = functools.partial(_with_larger_peaks, factor=how.factor), 1
    return [values, peaks] if how.scales_peaks else [values]


def _with_larger_peaks(x: torch.Tensor, factor: float) -> torch.Tensor:
    """The tensor with the largest element of each row along the last dimension scaled."""
    return torch.where(x == x.amax(dim=-1, keepdim=True), factor * x, x)


def is_float(x: Any) -> bool:
    """Test for a tensor of floats that torch computes in."""
    return (
        isinstance(x, torch.Tensor) and x.is_floating_point() and x.itemsize > 1 and x.numel() > 0
    )


def is_finite(x: Any) -> bool:
    """Test for a value without NaN and infinity, floats of one byte included."""
    return not isinstance(x, torch.Tensor) or bool(computable(x).isfinite().all())


def has_one_sign(x: Any) -> bool:
    """Test for a tensor of floats of one sign, neither normed nor whole numbers."""
    if not is_float(x) or input_domain.are_normed(x) or input_domain.is_whole(x):
        return False
    lowest, highest = x.aminmax()
    return bool(((lowest >= 0) & (highest > lowest)) | ((highest <= 0) & (lowest < highest)))
