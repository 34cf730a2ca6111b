"""Variants of a problem's inputs: the same shapes with values that its own
distribution seldom or never has.

A kernel that omits the maximum of a softmax, sums in half precision or mishandles negative numbers
is right on `randn`. Only floating-point tensors are changed, and only if the structure of the
inputs is preserved (input_domain.py).  The reference's process and the referee test whether the
reference is well conditioned on them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import torch

from workers.protocol import input_domain, layout, local_changes
from workers.protocol.roundoff import computable


class Variant(IntEnum):
    """Changes to the inputs; names as in app.domain.evaluation.Trial."""

    OWN = 0
    """The problem's own inputs."""
    SCALED = 1
    """Eight times as large; inputs within 0 … 1 or −1 … 1: an eighth."""
    HEAVY_TAILED = 2
    """Cubed: the largest of 16 million normal values become some 150."""
    SIGN_MIXED = 3
    """Random signs, if the inputs have both signs.  Each row along the last dimension has its
    own share of negative ones: of equal shares every mean is near zero, and a kernel that
    takes it for zero would be right.
    """
    SPARSE = 4
    """Nine of ten are zero; of numbers of one sign, none of them zero, the least of
    the tensor: a scale divides.
    """
    CONSTANT_ROWS = 5
    """Some rows along the last dimension are filled with one of their values, of median size.  Not
    every second row: then the keys of an attention would be equal, and published kernels that
    invert a triangular matrix by its powers would lose all digits, the reference none.
    """
    EDGES = 6
    """An eighth, except at both ends of every dimension: elements that a wrong mask
    leaves out then dominate.
    """
    NONFINITE = 7
    """NaN and both infinities, once each in every tensor; below 64 elements a NaN
    only, below 4 none.
    """
    SPIKED = 8
    """One value in sixteen is multiplied by −16, beyond the range of the distribution: no answer
    has to be right. Shows whether kernels without effect on ordinary inputs have any effect.
    """

    MILD = 9
    """Twice as large; inputs within 0 … 1 or −1 … 1: half.  For references with a small domain."""
    RESAMPLED = 10
    """Rows along the first dimension with more than one, resampled with replacement."""

    REDRAWN = 11
    """Integer inputs that are the same in every draw, drawn anew within their range
    (workers/shims/problem/reaching_inputs.py)."""
    REACHING = 12
    """Half of the rows scaled so far that values reach limits in the reference's code
    (workers/shims/problem/reaching_inputs.py)."""
    SIGNED = 13
    """Half of the elements of inputs of one sign negated, if the reference treats
    both signs differently.
    """
    NAMED = 14
    """Some elements replaced by a value that the reference compares the input with:
    a padding index, NaN.
    """
    UNSORTED = 15
    """Sorted inputs shuffled, if the reference sorts them."""
    HELD = 16
    """Rows alike and eight times as large, if the reference iterates
    (workers/shims/problem/iterated_inputs.py).
    """
    DIAGONAL = 17
    """Nearly diagonal matrices, if the reference iterates."""
    STRETCHED = 18
    """Eight times as large, beyond the range that inputs are drawn from, if the
    reference iterates.
    """

    LOCAL = 19
    """A few rows are scaled as in SCALED; in as many, the second half repeats the first; in as
    many, every second element the one before.
    """
    PARTLY = 20
    """All changes of the kinds REDRAWN, REACHING, SIGNED, NAMED, UNSORTED and STRETCHED that the
    problem has, each in a few rows or in a box of a tensor
    (workers/shims/problem/reaching_inputs.py).
    """


REACHED = (
    Variant.REDRAWN,
    Variant.REACHING,
    Variant.SIGNED,
    Variant.NAMED,
    Variant.UNSORTED,
    Variant.HELD,
    Variant.DIAGONAL,
    Variant.STRETCHED,
    Variant.PARTLY,
)
"""Variants on which an answer must be right, and which only some problems have."""

CHECKED = tuple(
    each
    for each in Variant
    if each not in (Variant.OWN, Variant.NONFINITE, Variant.SPIKED, *REACHED)
)
"""Variants on which an answer must be right."""

TIED = frozenset(
    {Variant.SPARSE, Variant.CONSTANT_ROWS, Variant.RESAMPLED, Variant.HELD, Variant.LOCAL}
)
"""Variants with equal values: a sort or a top-k may count any of them as the first."""

CLOSER = {Variant.REDRAWN: 4.0, Variant.LOCAL: 30.0}
"""Variants on which kernels round as usual: the largest error of a right answer, in multiples of
the least limit for its type (workers/protocol/roundoff.py).  On others it is 2 %.
"""

FACTORS = {Variant.SCALED: 8, Variant.MILD: 2}

SPIKE = -16.0
SPIKES = 1 / 16
CONSTANT_ROWS_SHARE, ROW_SAMPLE = 1 / 16, 255
"""Share of rows made constant, and the number of a row's elements from which its
value is the median.
"""

CONTINUOUS = 16
"""Distinct values among 256 above which a tensor counts as continuous; with fewer it
is a mask, or classes.
"""


Decided = dict[tuple["Variant", int], bool]
"""Decisions for a problem, by variant and by the index of a tensor among its inputs:
True if the tensor is changed. They are remembered because a decision waits for the
device twenty times for each tensor.
"""


def applied(variant: Variant, value: Any, decided: Decided | None = None) -> Any:
    """The inputs with a variant's change; draws from torch's seeded generator.

    `decided`: decisions known for the problem; new ones are added."""
    return _applied(variant, value, {} if decided is None else decided, itertools.count())


def _applied(variant: Variant, value: Any, decided: Decided, places: Iterator[int]) -> Any:
    if variant == Variant.OWN:
        return value
    if isinstance(value, torch.Tensor):
        place = next(places)
        if (
            not value.is_floating_point()
            or not value.numel()
            or not decided.get((variant, place), True)
        ):
            return value
        changed = _changed(variant, computable(value)).to(value.dtype)
        if variant in CHECKED and (variant, place) not in decided:
            decided[variant, place] = input_domain.keeps_structure(value, changed)
        return changed if decided.get((variant, place), True) else value
    if isinstance(value, list | tuple):
        return layout.remade(value, (_applied(variant, item, decided, places) for item in value))
    if isinstance(value, dict):
        return {key: _applied(variant, item, decided, places) for key, item in value.items()}
    return value


def _changed(variant: Variant, x: torch.Tensor) -> torch.Tensor:
    if variant in FACTORS:
        return x * _factor(variant, x)
    if variant == Variant.LOCAL:
        factor = _factor(Variant.SCALED, x)
        x = local_changes.in_few_rows(x, lambda rows: rows * factor)
        x = local_changes.in_few_rows(x, local_changes.with_equal_halves)
        return local_changes.in_few_rows(x, local_changes.with_equal_pairs)
    if variant == Variant.HEAVY_TAILED:
        return x**3
    if variant == Variant.SIGN_MIXED:
        return x if x.min() >= 0 or x.max() <= 0 else _with_signs_by_row(x)
    if variant == Variant.SPARSE:
        return torch.where(torch.rand_like(x) < 0.1, x, _least(x))
    if variant == Variant.CONSTANT_ROWS:
        return _with_constant_rows(x)
    if variant == Variant.RESAMPLED:
        return _resampled(x)
    if variant == Variant.EDGES:
        return _with_edges(x)
    if variant == Variant.SPIKED:
        return _spiked(x)
    changed = x.clone()
    if x.numel() >= 64:
        places = (
            torch.randperm(x.numel(), device=x.device)[:3] if x.numel() < 1 << 20 else _spread(x)
        )
        special = torch.tensor(
            [float("nan"), float("inf"), float("-inf")], dtype=x.dtype, device=x.device
        )
        changed.view(-1)[places] = special
    elif x.numel() >= 4:
        changed.view(-1)[torch.randint(0, x.numel(), (1,), device=x.device)] = float("nan")
    return changed


def _factor(variant: Variant, x: torch.Tensor) -> float:
    small = (x.min() >= 0 and x.max() <= 1) or input_domain.is_bounded(x)
    return 1 / FACTORS[variant] if small else float(FACTORS[variant])


def _with_signs_by_row(x: torch.Tensor) -> torch.Tensor:
    share = torch.rand(x.shape[:-1], device=x.device).unsqueeze(-1)
    return x.abs() * torch.where(torch.rand(x.shape, device=x.device) < share, -1, 1)


def _least(x: torch.Tensor) -> torch.Tensor:
    """Zero, or the number nearest to zero of a tensor without zeros whose numbers have one sign."""
    low, high = x.amin(), x.amax()
    return torch.where(low > 0, low, torch.where(high < 0, high, torch.zeros_like(low)))


def _spread(x: torch.Tensor) -> torch.Tensor:
    return torch.randint(0, x.numel() // 3, (3,), device=x.device) + torch.arange(
        3, device=x.device
    ) * (x.numel() // 3)


def _resampled(x: torch.Tensor) -> torch.Tensor:
    dimension = next((place for place, size in enumerate(x.shape) if size > 1), None)
    if dimension is None:
        return x
    size = x.shape[dimension]
    return x.index_select(dimension, torch.randint(0, size, (size,), device=x.device))


def _with_edges(x: torch.Tensor) -> torch.Tensor:
    changed = x / 8
    for dimension, size in enumerate(x.shape):
        for end in (0, size - 1):
            changed.select(dimension, end).copy_(x.select(dimension, end))
    return changed


def _spiked(x: torch.Tensor) -> torch.Tensor:
    sample = x.flatten()[:256]
    if not bool(torch.isfinite(x).all()) or len(set(sample.tolist())) <= CONTINUOUS:
        return x
    return torch.where(torch.rand_like(x) < SPIKES, x * SPIKE, x)


def _with_constant_rows(x: torch.Tensor) -> torch.Tensor:
    if x.dim() < 2:
        return x
    changed = x.clone()
    rows = (
        changed.view(-1, x.shape[-1])
        if changed.is_contiguous()
        else changed.reshape(-1, x.shape[-1])
    )
    chosen = torch.rand(len(rows), device=x.device) < CONSTANT_ROWS_SHARE
    chosen[torch.randint(len(rows), (1,), device=x.device)] = True
    sample = rows[chosen, :ROW_SAMPLE]
    rows[chosen] = sample.gather(1, sample.abs().float().median(dim=1, keepdim=True).indices)
    return rows.view(x.shape)
