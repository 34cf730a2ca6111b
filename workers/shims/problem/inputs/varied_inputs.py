"""Changes that make the variants of inputs that depend on the inputs alone
(workers/protocol/input_variants.py).

Only floating-point tensors are changed, and only if the structure of the inputs is preserved
(input_domain.py); of integers, classes are resampled.  The reference's process and the referee test
whether the reference is well conditioned on them.  All changes draw from torch's seeded generator.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator
from typing import Any

import torch

from workers.protocol import layout
from workers.protocol.input_variants import CHECKED, Variant
from workers.protocol.roundoff import are_integers, computable
from workers.shims.problem.inputs import (
    input_domain,
    levelled_inputs,
    local_changes,
    redrawn_inputs,
)

FACTORS = {Variant.SCALED: 8, Variant.MILD: 2}

LEAST_GROWTH = 1.9
"""Least factor on numbers from 0 on that stay below one."""

SPIKE = -16.0
SPIKES = 1 / 16
CONSTANT_ROWS_SHARE, ROW_SAMPLE = 1 / 16, 255
"""Share of rows made constant, and the number of a row's elements from which its
value is the median.
"""

CROWDED_ROWS, CROWDED_SHARE = 3, 0.75
"""Number of rows of which most of the resampled ones are copies, and their share: an expert, a
bucket or a cluster receives more of them than of the problem's own inputs.
"""

FULL_ROWS = 0.5
"""Share of the constant rows of whole numbers, such as a mask, that hold the largest of all."""

FAINT_BITS = (4, 12)
"""Bits by which faint rows are smaller.  Their mean square is then near the epsilons of norms, so
that one that is added at another place shows.
"""

SHRUNK_BITS = (3, 9)
"""Bits by which a shrunk tensor is smaller."""

SMALLER_BITS, FEW_BITS = (8, 24), (3, 8)
"""Bits by which all numbers are smaller; the second ones for fp16, in which they would vanish."""

MANY_SLICES, SEVERAL_SLICES, UNLIKE_ALONE = 64, 4, 0.25
"""With fewer slices along the first dimension, changed parts coincide, and a faint one hides other
changes: then one half of the slices has faint and negative parts, and the other half the other
changes; with still fewer, these are made in a share of the draws, and those in the rest.
"""

ALL_BUT_FIRST = 0.5
"""Share of the faint and of the negative parts that are whole samples, as norms of several
dimensions and pooling windows need; the others are rows.
"""

CONTINUOUS = 16
"""Distinct values among 256 above which a tensor counts as continuous; with fewer it
is a mask, or classes.
"""


Decided = dict[tuple[Variant, int], bool]
"""Decisions for a problem, by variant and by the index of a tensor among its inputs:
True if the tensor is changed. They are remembered because a decision reads the tensor
ten times, and waits for the device.
"""


def applied(variant: Variant, value: Any, decided: Decided | None = None) -> Any:
    """The inputs with a variant's change; draws from torch's seeded generator.

    `decided`: decisions known for the problem; new ones are added."""
    known, places = {} if decided is None else decided, itertools.count()
    changed = layout.mapped(lambda leaf: _applied(variant, leaf, known, places), value)
    return _with_crowded_classes(changed) if variant == Variant.RESAMPLED else changed


def _applied(variant: Variant, value: Any, decided: Decided, places: Iterator[int]) -> Any:
    """A leaf of the inputs with a variant's change; `places`: indices of the tensors to come."""
    if variant == Variant.OWN or not isinstance(value, torch.Tensor):
        return value
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


def _changed(variant: Variant, x: torch.Tensor) -> torch.Tensor:
    """The tensor with a variant's change.  Raises ValueError for a kind that is made elsewhere."""
    if variant in FACTORS:
        return x * _factor(variant, x)
    if variant == Variant.LOCAL:
        return _with_local_changes(x)
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
    if variant == Variant.SHRUNK:
        return _made_faint(x, SHRUNK_BITS)
    if variant == Variant.LEVELLED:
        return levelled_inputs.levelled(x)
    if variant == Variant.SMALLER:
        return _smaller(x)
    if variant == Variant.NONFINITE:
        return _with_special_values(x)
    raise ValueError(f"expected a variant that depends on the inputs alone, got {variant.name}")


def _with_special_values(x: torch.Tensor) -> torch.Tensor:
    changed = x.clone()
    if x.numel() >= 64:
        few = x.numel() < 1 << 20
        places = torch.randperm(x.numel(), device=x.device)[:3] if few else _spread(x)
        special = [math.nan, math.inf, -math.inf]
        changed.view(-1)[places] = torch.tensor(special, dtype=x.dtype, device=x.device)
    elif x.numel() >= 4:
        changed.view(-1)[torch.randint(0, x.numel(), (1,), device=x.device)] = math.nan
    return changed


def _smaller(x: torch.Tensor) -> torch.Tensor:
    """The tensor, smaller by a power of two that all tensors of a call share; unchanged if it would
    lose its structure.
    """
    least, most = FEW_BITS if x.dtype == torch.float16 else SMALLER_BITS
    changed = x * math.ldexp(1.0, -least - torch.initial_seed() % (most - least + 1))
    return changed if input_domain.keeps_structure(x, changed, bounds=False) else x


def _factor(variant: Variant, x: torch.Tensor) -> float:
    """A variant's factor for a tensor: smaller than one if it may not grow, as probabilities may
    not; shares below a half come close to one at most.
    """
    factor = float(FACTORS[variant])
    low, high = torch.stack(x.aminmax()).tolist()
    if input_domain.BOUND_REACHED < max(-low, high) <= 1:
        return 1 / factor
    if not 0 <= low <= high <= 1:
        return factor
    room = input_domain.BOUND_REACHED / high if high else factor
    return min(factor, room) if room >= LEAST_GROWTH else 1 / factor


def _with_local_changes(x: torch.Tensor) -> torch.Tensor:
    factor, slices = _factor(Variant.SCALED, x), x.shape[:1].numel()
    if slices >= MANY_SLICES:
        return _with_equal_parts(_with_unlike_samples(x, factor), factor)
    if x.dim() > 1 and slices >= SEVERAL_SLICES:
        some, others = torch.randperm(slices, device=x.device).tensor_split(2)
        changed = x.clone()
        changed[some] = _with_unlike_samples(x[some], factor)
        changed[others] = _with_equal_parts(x[others], factor)
        return changed
    are_unlike = torch.rand(()) < UNLIKE_ALONE
    return (_with_unlike_samples if are_unlike else _with_equal_parts)(x, factor)


def _with_equal_parts(x: torch.Tensor, factor: float) -> torch.Tensor:
    """The tensor with a few elements scaled, sorted rows (their largest elements lie in one place,
    where choices by parts miss some), and rows of which a part repeats another.  Sorting comes
    first: it would part equal elements in a tensor with few rows.
    """
    x = local_changes.in_few_rows(x, lambda part: part * factor, whole=0)
    x = local_changes.in_few_rows(x, local_changes.in_order)
    x = local_changes.in_few_rows(x, local_changes.with_equal_halves)
    return local_changes.in_few_rows(x, local_changes.with_equal_pairs)


def _with_unlike_samples(x: torch.Tensor, factor: float) -> torch.Tensor:
    """The tensor with faint rows or samples, and with negative ones if it has both signs."""
    if not input_domain.is_whole(x):
        x = local_changes.in_few_rows(x, _made_faint, whole=_whole(x))
    if x.min() < 0 < x.max():
        x = local_changes.in_few_rows(x, lambda part: -part.abs() * factor, whole=_whole(x))
    return x


def _made_faint(part: torch.Tensor, bits: tuple[int, int] = FAINT_BITS) -> torch.Tensor:
    low, high = bits
    return part * math.exp2(-(low + (high - low) * float(torch.rand(()))))


def _whole(x: torch.Tensor) -> int:
    """Dimensions that a change does not cut: only the last, or all but the first."""
    return max(1, x.dim() - 1) if torch.rand(()) < ALL_BUT_FIRST else 1


def _with_signs_by_row(x: torch.Tensor) -> torch.Tensor:
    share = torch.rand(x.shape[:-1], device=x.device, dtype=x.dtype).unsqueeze(-1)
    return torch.copysign(x, torch.rand_like(x).sub_(share))  # in place: x may fill much memory


def _least(x: torch.Tensor) -> torch.Tensor:
    """Zero, or the number nearest to zero of a tensor without zeros whose numbers have one sign."""
    low, high = x.amin(), x.amax()
    return torch.where(low > 0, low, torch.where(high < 0, high, torch.zeros_like(low)))


def _spread(x: torch.Tensor) -> torch.Tensor:
    return torch.randint(0, x.numel() // 3, (3,), device=x.device) + torch.arange(
        3, device=x.device
    ) * (x.numel() // 3)


def _resampled(x: torch.Tensor, crowded: float = CROWDED_SHARE) -> torch.Tensor:
    dimension = next((place for place, size in enumerate(x.shape) if size > 1), None)
    if dimension is None:
        return x
    size = x.shape[dimension]
    few = torch.randperm(size, device=x.device)[:CROWDED_ROWS]
    rows = torch.where(
        torch.rand(size, device=x.device) < crowded,
        few[(len(few) * torch.rand(size, device=x.device) ** 2).long()],  # most of the first
        torch.randint(0, size, (size,), device=x.device),
    )
    return x.index_select(dimension, rows)


def _with_crowded_classes(inputs: Any) -> Any:
    """The inputs with classes resampled, so that most of them are empty.  Only the single tensor of
    integers among the inputs: several may belong together (ends of an edge, sizes of groups).
    """
    leaves = list(layout.values(inputs))
    places = [at for at, x in enumerate(leaves) if are_integers(x) and x.numel() > 1]
    sizes = {size for x in leaves if isinstance(x, torch.Tensor) for size in x.shape}
    if len(places) != 1 or not _are_classes(leaves[places[0]], sizes):
        return inputs
    leaves[places[0]] = _resampled(leaves[places[0]], crowded=1)
    return redrawn_inputs.with_leaves(inputs, leaves)


def _are_classes(x: torch.Tensor, sizes: Collection[int]) -> bool:
    """Test for integers of which each may occur any number of times, at every place along the first
    dimension: most occur several times, not all equally often, in no order, and their sum is no
    input's length.
    """
    rows = x.shape[0]
    if x.numel() > input_domain.LOOKED_AT or rows * rows < x.numel() or int(x.min()) < 0:
        return False
    if bool((x.diff(dim=0) >= 0).all()) or int(x.sum()) in sizes:
        return False
    values, counts = x.unique(return_counts=True)  # type: ignore[no-untyped-call]
    return 2 * len(values) <= x.numel() and not bool((counts == counts[0]).all())


def _with_edges(x: torch.Tensor) -> torch.Tensor:
    long = [dimension for dimension, size in enumerate(x.shape) if size > 2]
    if not long:
        return x
    changed = x / 8
    for dimension in long:  # one or two slices are ends only
        for end in (0, x.shape[dimension] - 1):
            changed.select(dimension, end).copy_(x.select(dimension, end))
    return changed


def _spiked(x: torch.Tensor) -> torch.Tensor:
    sample = x.flatten()[:256]
    if not bool(torch.isfinite(x).all()) or len(set(sample.tolist())) <= CONTINUOUS:
        return x
    changed = torch.rand_like(x).lt_(SPIKES).mul_(SPIKE - 1).add_(1)  # factors: SPIKE or 1
    return changed.mul_(x)


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
    value = sample.gather(1, sample.abs().float().median(dim=1, keepdim=True).indices)
    if input_domain.is_whole(x):  # some rows of a mask hide all, some nothing
        value = torch.where(torch.rand_like(value) < FULL_ROWS, x.amax(), value)
    rows[chosen] = value
    return rows.view(x.shape)
