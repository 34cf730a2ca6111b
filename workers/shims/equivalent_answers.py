"""GENERATE: answers that differ from the expected one and are right all the same.

Indices of equal values are right when the values that they point at are: a top-k, a sort and an argmax say in which
tensor that is.  And where rounding decides (a number that is rounded to a whole one, a comparison, the expert that a
token goes to), every answer is right that the reference itself gives when each of its operations errs as a rounding
does (workers.shims.rounding.Shaken).  The same shaking says how far rounding may move an answer that cancels, or is
mostly zero.

Asked call by call and only where an answer is wrong, so that it costs an honest candidate little, and no number of
calls makes the rule stricter.  It does not excuse elements by the dozen: beyond a share of an output (`MOST`), only
ties are."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from workers.protocol import layout
from workers.protocol.roundoff import FLOORS, is_inexact, unit
from workers.shims import rounding, true_answer
from workers.shims.true_answer import Truth

MOST = 0.05
"""Share of an output's elements that rounding may decide."""

SAMPLES, SCALE = 12, 8.0
"""Answers with errors so many times a rounding's: an order of summation differs from another by some of them."""

GAUGES = 3
"""Answers with errors of a rounding's size, which show the effect of rounding on an answer."""

FEWEST = 4
"""Least number of answers for a statement about elements that rounding decides."""

NEAR = 4.0
"""Computed values are equal within so many roundings."""

LOOK_S = 2.0
"""Seconds of processor time for shaking an answer; a busy host must not decide."""

SELECTIONS = ("topk", "sort", "argmax", "argmin", "max", "min", "kthvalue", "median", "nanmedian", "cummax", "cummin")
"""Operations that return positions in their first argument."""

WITHOUT_REPEATS = ("topk", "sort")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """One operation that has chosen places."""

    name: str
    places: torch.Tensor
    source: torch.Tensor
    """Argument of the operation, with the dimension along which the places lie."""
    dim: int
    stable: bool
    """True if equal values must come in their original order."""
    nominal: torch.dtype


@dataclass(kw_only=True)
class Leaf:
    """The findings on one output; all that the referee is told of it."""

    l2: float = 0.0
    """Relative L2 error that a rounding in every operation makes."""
    largest: float = 0.0
    """Largest such error, over the root mean square."""
    ties: int = 0
    """Elements that point at another place of an equal value."""
    close: int = 0
    """Elements that rounding decides."""


class Selections(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the operations that choose places."""

    def __init__(self) -> None:
        """Nothing noted yet."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[Selection] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2].lstrip("_")
        if name in SELECTIONS:
            self._note(name, func, args, kwargs or {}, result)
        return result

    def _note(self, name: str, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        named = {each.name: value for each, value in zip(func._schema.arguments, args, strict=False)} | kwargs
        source = named["self"]
        places = result if isinstance(result, torch.Tensor) else result[1] if len(result) == 2 else None
        if places is None or places.dtype != torch.int64 or not source.dim():
            return
        dim = named.get("dim", -1)
        nominal = true_answer.nominal(source)
        if dim is None or (name in ("argmax", "argmin") and "dim" not in named):
            source, dim, places = source.flatten(), 0, places.reshape(1)
        dim %= source.dim()
        if places.dim() < source.dim():
            places = places.unsqueeze(dim)
        self.found.append(
            Selection(
                name=name, places=places, source=source, dim=dim, stable=bool(named.get("stable")), nominal=nominal
            )
        )


def look(model: Any, best: Truth, inputs: list[Any], got: list[torch.Tensor], until: float) -> list[Leaf]:
    """Find elements of an answer that are right without being as expected; `got`, a tensor for each output, becomes
    the expected one where it is wrong, and stays as it is where it is right.

    `model`: the twin that computes this truth, or the model itself where there is none; `inputs`: as the model is given
    them; `until`: by time.process_time(), from when on nothing is shaken, and ties alone are looked for."""
    given = copy.deepcopy(inputs) if best is Truth.OWN else true_answer.widened(inputs, best)
    with Selections() as chosen:
        answer = [_tensor(leaf, view) for leaf, view in zip(_values(_call(model, given, best)), got, strict=True)]
    leaves = [Leaf() for _ in got]
    right = [_differs_not(mine, theirs) for mine, theirs in zip(got, answer, strict=True)]
    for leaf, mine, theirs, fine in zip(leaves, got, answer, right, strict=True):
        if not is_inexact(mine.dtype):
            tied = _ties(mine, theirs, chosen.found) & ~fine
            leaf.ties = int(tied.sum())
            fine |= tied
    if best is not Truth.OWN and time.process_time() < until and not all(bool(fine.all()) for fine in right):
        _shake(model, best, inputs, got, answer, leaves, right, until)
    for mine, theirs, fine in zip(got, answer, right, strict=True):
        mine.copy_(torch.where(fine, mine, theirs.to(mine.dtype)))
    return leaves


def together(parts: Iterable[list[Leaf]]) -> list[Leaf]:
    """The findings on outputs of which each part was looked at on its own."""
    found: list[Leaf] = []
    for leaves in parts:
        found = found or [Leaf() for _ in leaves]
        for whole, part in zip(found, leaves, strict=True):
            whole.l2, whole.largest = max(whole.l2, part.l2), max(whole.largest, part.largest)
            whole.ties, whole.close = whole.ties + part.ties, whole.close + part.close
    return found


def told(leaves: list[Leaf]) -> list[dict[str, float]]:
    """Findings as plain values for JSON."""
    return [asdict(leaf) for leaf in leaves]


def _call(model: Any, given: list[Any], best: Truth) -> Any:
    return true_answer.call(model, given, best)


def _values(answer: Any) -> list[Any]:
    return list(layout.values(answer))


def _tensor(value: Any, like: torch.Tensor) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.reshape(like.shape).clone()
    return torch.full_like(like, value, dtype=torch.float64 if like.dtype.is_floating_point else like.dtype)


def _differs_not(mine: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    """Elements that are the expected ones, of exact outputs; none of others, which are compared by the referee."""
    return torch.zeros_like(mine, dtype=torch.bool) if is_inexact(mine.dtype) else mine == theirs.to(mine.dtype)


def _ties(mine: torch.Tensor, theirs: torch.Tensor, chosen: list[Selection]) -> torch.Tensor:
    """Elements that point at a value equal to the one that is expected."""
    found = torch.zeros(mine.numel(), dtype=torch.bool, device=mine.device)
    if mine.dtype != torch.bool:
        for each in chosen:
            flat = each.places.flatten()
            if flat.numel() == mine.numel() and torch.equal(flat, theirs.flatten().to(flat.dtype)):
                found |= _points_at_equals(mine.reshape(each.places.shape).long(), each).flatten()
    return found.view(mine.shape)


def _points_at_equals(places: torch.Tensor, chosen: Selection) -> torch.Tensor:
    source, dim = chosen.source, chosen.dim
    size = source.shape[dim]
    inside = (places >= 0) & (places < size)
    wide = source.double() if is_inexact(source.dtype) else source
    mine = wide.gather(dim, places.clamp(0, size - 1))
    theirs = wide.gather(dim, chosen.places)
    equal = (mine == theirs) | (mine.isnan() & theirs.isnan())
    if is_inexact(source.dtype) and not torch.equal(source.to(chosen.nominal).to(source.dtype), source):
        equal |= (mine - theirs).abs() <= NEAR * unit(chosen.nominal) * torch.maximum(mine.abs(), theirs.abs())
    if chosen.stable:
        equal &= (mine != theirs) | (places == chosen.places)
    if chosen.name in WITHOUT_REPEATS:
        ordered = places.sort(dim).values
        repeats = ordered.narrow(dim, 1, ordered.shape[dim] - 1) == ordered.narrow(dim, 0, ordered.shape[dim] - 1)
        equal &= ~repeats.any(dim, keepdim=True)
    return equal & inside


def _shake(
    model: Any,
    best: Truth,
    inputs: list[Any],
    got: list[torch.Tensor],
    answer: list[torch.Tensor],
    leaves: list[Leaf],
    right: list[torch.Tensor],
    until: float,
) -> None:
    """Note the effect of roundings on each output, and mark the elements that they decide as right; neither where there
    is no time for enough answers."""
    spreads = [torch.zeros_like(each, dtype=torch.float64) for each in got]
    low, high = [each.clone() for each in answer], [each.clone() for each in answer]
    met = [fine.clone() for fine in right]
    for sample in range(GAUGES + SAMPLES):
        if _all_met(got, met):
            break
        if time.process_time() > until:
            if sample < GAUGES + FEWEST:
                return
            break
        gauging = sample < GAUGES
        for place, each in enumerate(_shaken(model, best, inputs, got, sample, 1.0 if gauging else SCALE)):
            if not is_inexact(each.dtype):
                met[place] |= got[place] == each.to(got[place].dtype)
            elif gauging:
                spreads[place] += (each - answer[place]).abs().square().nan_to_num()
            elif not each.is_complex():
                low[place], high[place] = torch.minimum(low[place], each), torch.maximum(high[place], each)
    for place, (leaf, mine, theirs) in enumerate(zip(leaves, got, answer, strict=True)):
        if is_inexact(mine.dtype):
            margin = FLOORS.get(mine.dtype, (0.0, 0.0))[1] * _rms(theirs)
            jumps = (high[place] - low[place]).abs() > 4 * margin  # of complex numbers nothing is known
            if not mine.is_complex():
                met[place] = jumps & (mine.double() >= low[place] - margin) & (mine.double() <= high[place] + margin)
            _gauge(leaf, spreads[place].masked_fill_(jumps, 0) / GAUGES, _rms(theirs))
        close = met[place] & ~right[place]
        count = int(close.sum())
        if count <= max(1, MOST * mine.numel()):
            leaf.close = count
            right[place] |= close


def _all_met(got: list[torch.Tensor], met: list[torch.Tensor]) -> bool:
    """Return whether the search is complete: every output is exact, and each element was met."""
    return not any(is_inexact(each.dtype) for each in got) and all(bool(fine.all()) for fine in met)


def _gauge(leaf: Leaf, squares: torch.Tensor, rms: float) -> None:
    """Note the errors of elements that move steadily; an element that jumps says nothing of the others."""
    if rms and squares.numel():
        leaf.l2 = float(squares.mean().sqrt()) / rms
        leaf.largest = float(squares.amax().sqrt()) / rms


def _rms(values: torch.Tensor) -> float:
    return float(values.abs().double().nan_to_num(posinf=0.0).square().mean().sqrt()) if values.numel() else 0.0


def _shaken(
    model: Any, best: Truth, inputs: list[Any], got: list[torch.Tensor], sample: int, scale: float
) -> list[torch.Tensor]:
    found = rounding.shaken(model, true_answer.widened(inputs, best), sample, scale)
    return [_tensor(leaf, view) for leaf, view in zip(_values(found), got, strict=True)]
