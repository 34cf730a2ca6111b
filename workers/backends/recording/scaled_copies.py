"""Launches that only scale: each tensor that the kernel wrote is a multiple of a tensor that the
library computed, plus a constant, or one that the library had computed earlier in the call
(earlier_tensors.py).

The multiples are found in one call and applied in another one in place of its launches
(AblationMode.SCALE): if the answer is still right, the library had computed it.  A source with the
values of an input, in any order, does not count as computed: to scale an input may be the problem.

This does not guard against a kernel that inverts a function of a tensor, if the library never held
the result itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

import torch

from workers.backends.recording.earlier_tensors import EarlierTensors, spacing
from workers.backends.recording.written_values import HOST_BYTES, Written

NONE_KEPT: Mapping[int, torch.Tensor] = MappingProxyType({})

FITTED_ELEMENTS = 1 << 14
"""Evenly spaced elements of a tensor to which a multiple is fitted."""

MOST_ELEMENTS = 1 << 20
"""Evenly spaced elements of a tensor that are compared with an input's."""

ROUNDING = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}
"""Largest deviation from a multiple, as a share of the largest value."""

SAME_VALUES = 2e-3
"""Relative difference of the least, largest and mean squared value up to which two tensors count as
holding the same values.
"""


class Scaled(NamedTuple):
    """One tensor of a launch: factor · source + offset, or an earlier tensor."""

    target: int
    source: int
    """Positions among the launch's tensors."""
    factor: float = 1.0
    offset: float = 0.0
    earlier: int | None = None
    """Number of the earlier tensor that stands for it, if one does."""


def found(
    before: Sequence[torch.Tensor],
    written: Sequence[Written],
    inputs: Sequence[Values],
    earlier: EarlierTensors | None = None,
) -> tuple[Scaled, ...]:
    """Multiples that explain a launch, one for each tensor that it changed; empty if one of the
    tensors has none.

    `before`, `written`: the launch's tensors before and after it; `inputs`: those of the call
    when it began, since a kernel may change them; `earlier`: the tensors that the library
    computed before, if they were noted.

    The arithmetic is done on the host: a process takes milliseconds for each operation that it uses
    on a GPU for the first time (0.3 s for all of these, H200), and timers wait meanwhile.
    """
    made = []
    for target, (is_changed, _, new) in enumerate(written):
        if not is_changed:
            continue
        fits = chain(_fits(target, new, before, inputs), _earlier(target, new, inputs, earlier))
        fit = next(fits, None)
        if fit is None:
            return ()
        made.append(fit)
    return tuple(made)


def apply(
    launch: Sequence[Scaled],
    tensors: Sequence[torch.Tensor],
    kept: Mapping[int, torch.Tensor] = NONE_KEPT,
) -> None:
    """Write the multiples in place of a launch with these tensors.  `kept`: earlier tensors of this
    call, by number.
    """
    for each in launch:
        if each.earlier is not None:
            same, target = kept.get(each.earlier), dict(enumerate(tensors)).get(each.target)
            if same is not None and target is not None and same.numel() == target.numel():
                target.copy_(same.view(target.shape))
        elif max(each.source, each.target) < len(tensors):
            source, target = tensors[each.source], tensors[each.target]
            if source.numel() == target.numel():
                target.copy_((each.factor * source.double() + each.offset).view(target.shape))


def _fits(
    target: int, new: torch.Tensor, before: Sequence[torch.Tensor], inputs: Sequence[Values]
) -> Iterator[Scaled]:
    if new.dtype not in ROUNDING:
        return
    y = _values(new, FITTED_ELEMENTS)
    for place, source in enumerate(before):
        if source.numel() != new.numel() or source.dtype not in ROUNDING:
            continue
        x = _values(source, FITTED_ELEMENTS)
        spread = x - x.mean()
        size = float(spread.square().sum())
        if not 0 < size < float("inf"):
            continue
        factor = float((spread * y).sum()) / size
        offset = float(y.mean() - factor * x.mean())
        off = float((factor * x + offset - y).abs().max())
        is_multiple = factor and off <= ROUNDING[new.dtype] * float(y.abs().max())
        if is_multiple and not any(map(Values(source).are_those_of, inputs)):
            yield Scaled(target, place, factor, offset)


def _earlier(
    target: int, new: torch.Tensor, inputs: Sequence[Values], earlier: EarlierTensors | None
) -> Iterator[Scaled]:
    """Earlier tensors with the values of this one, unless an input has them: to move an input may
    be the problem.
    """
    if earlier is None or new.dtype not in ROUNDING or any(map(Values(new).are_those_of, inputs)):
        return
    for number in earlier.numbers_of(new, ROUNDING[new.dtype]):
        yield Scaled(target, target, earlier=number)


def _values(tensor: torch.Tensor, most: int) -> torch.Tensor:
    """Up to about `most` values, in fp64 on the host."""
    flat = tensor.detach().reshape(-1)
    flat = (
        flat.cpu() if flat.nbytes <= HOST_BYTES else flat
    )  # a strided copy is an operation of its own on the device
    return flat[:: spacing(flat.numel(), most)].cpu().double()


def copy_first(arguments: Iterable[object]) -> None:
    """Copy the first tensor's bytes into every later one of its size, or to the beginning of one
    that is up to twice as large: the least work of a kernel (AblationMode.COPY).
    """
    sources: list[torch.Tensor] = []
    for tensor in arguments:
        if not isinstance(tensor, torch.Tensor) or not tensor.is_contiguous():
            continue
        source = next((each for each in sources if _has_room(each, tensor)), None)
        if source is None:
            sources.append(tensor)
        else:
            tensor.flatten()[: source.numel()].copy_(source.flatten().view(tensor.dtype))


def _has_room(source: torch.Tensor, into: torch.Tensor) -> bool:
    return source.itemsize == into.itemsize and source.numel() <= into.numel() < 2 * source.numel()


class Values:
    """Least, largest and mean squared value of a tensor of floats with elements."""

    def __init__(self, tensor: torch.Tensor) -> None:
        flat = _values(tensor, MOST_ELEMENTS)
        self._numbers = torch.stack((flat.min(), flat.max(), flat.square().mean()))
        self._count = flat.numel()

    def are_those_of(self, other: Values) -> bool:
        """Test whether the other tensor held about the same values, in any order."""
        same = torch.allclose(self._numbers, other._numbers, rtol=SAME_VALUES, atol=1e-12)
        return other._count == self._count and same


def values(given: Iterable[object]) -> list[Values]:
    """The values of each tensor of floats among these."""
    return [
        Values(each)
        for each in given
        if isinstance(each, torch.Tensor) and each.is_floating_point() and each.numel()
    ]
