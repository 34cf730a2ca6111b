"""Equivalent answers, which differ from the expected one and are right.

* Ties: an index is right if it points at a value equal to the expected one's.  The operations that
  return indices (top-k, sort, argmax) show in which tensor.  Not if the operation keeps the order
  of equal values (`rounding.has_order`).
* Elements that rounding decides (a value rounded to an integer, a comparison, the expert that
  a token is sent to): every answer is right that the reference gives if each of its
  operations has an error of the size of a rounding (`rounding.Perturbed`).  So is NaN where one of
  these answers is (the root of a distance of zero), and a number of their size where one is none.
  At most a share of an output (`MOST`) may be decided so, or any of its counts by a little in all.
* The same perturbations show how far rounding moves an answer that cancels or is mostly zero.

Each wrong call is examined on its own: honest candidates pay little, and the number of calls
does not make the rule stricter.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from workers.backends.support.dispatch_mode import Watching
from workers.protocol import layout
from workers.protocol.roundoff import FLOORS, is_inexact, unit
from workers.shims.problem.answers import (
    decided_counts,
    rounding,
    true_answer,
    undefined_elements,
)
from workers.shims.problem.answers.true_answer import Truth

MOST = 0.05
"""Share of an output's elements that rounding may decide."""

SAMPLES, SCALE = 12, 8.0
"""Number of perturbed answers, and the size of their errors in roundings: two orders
of summation differ by several.
"""

GAUGES = 3
"""Number of answers with errors of one rounding, which show the effect of rounding on an answer."""

FEWEST = 4
"""Least number of perturbed answers for findings on elements that rounding decides."""

NEAR = 4.0
"""Difference in roundings up to which two computed values count as equal."""

LOOK_S, ELEMENT_S = 2.0, 1.5e-6
"""Processor seconds for perturbing one answer, and for each element of it and of its inputs, which
may be far more (the best 8 of 192 experts for each token): processor time, so that a busy host does
not affect the result.  A quantised answer of 4.5 million elements takes 3 to 5.4 s on a CPU.
"""

MOST_S = 20.0
"""Most processor seconds for a look: the request ends after deadline.REFERENCE_TIMEOUT_S."""

WITHOUT_REPEATS = ("topk", "sort")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """One operation that returned indices."""

    name: str
    indices: torch.Tensor
    source: torch.Tensor
    """Argument of the operation, into which the indices point along `dim`."""
    dim: int
    ordered: bool
    """True if the order of equal values decides (`rounding.has_order`)."""
    nominal: torch.dtype


@dataclass(kw_only=True)
class Leaf:
    """Findings on one output, as reported to the referee."""

    l2: float = 0.0
    """Relative L2 error that a rounding in every operation makes."""
    largest: float = 0.0
    """Largest such error, over the root mean square."""
    ties: int = 0
    """Number of indices that point at a value equal to the expected one's."""
    close: int = 0
    """Number of elements that rounding decides."""


class Selections(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that records the operations that return indices."""

    def __init__(self) -> None:
        """Without records at first."""
        super().__init__()
        self.found: list[Selection] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = rounding.operation(func)
        if name in rounding.SELECTIONS:
            self._note(name, func, args, kwargs or {}, result)
        return result

    def _note(self, name: str, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        named = {
            each.name: value for each, value in zip(func._schema.arguments, args, strict=False)
        } | kwargs
        source = named["self"]
        indices = (
            result if isinstance(result, torch.Tensor) else result[1] if len(result) == 2 else None
        )
        if indices is None or indices.dtype != torch.int64 or not source.dim():
            return
        dim = named.get("dim", -1)
        nominal = true_answer.nominal(source)
        if dim is None or (name in ("argmax", "argmin") and "dim" not in named):
            source, dim, indices = source.flatten(), 0, indices.reshape(1)
        dim %= source.dim()
        if indices.dim() < source.dim():
            indices = indices.unsqueeze(dim)
        self.found.append(
            Selection(
                name=name,
                indices=indices,
                source=source,
                dim=dim,
                ordered=rounding.has_order(named),
                nominal=nominal,
            )
        )


def find_equivalent(
    model: Any, best: Truth, inputs: list[Any], got: list[torch.Tensor], until: float
) -> list[Leaf]:
    """Find elements of an answer that differ from the expected ones and are right.  In
    `got`, one tensor per output, wrong elements are replaced by the expected ones;
    right elements keep their values.

    `model`: the twin that computes this truth, or the model itself if there is no twin;
    `inputs`: the call's inputs; `until`: time.process_time() after which nothing is
    perturbed and only ties are found.
    """
    given = copy.deepcopy(inputs) if best is Truth.OWN else true_answer.widened(inputs, best)
    with Selections() as chosen:
        answer = [
            _tensor(leaf, view)
            for leaf, view in zip(_values(_call(model, given, best)), got, strict=True)
        ]
    leaves = [Leaf() for _ in got]
    right = [_differs_not(mine, theirs) for mine, theirs in zip(got, answer, strict=True)]
    for leaf, mine, theirs, fine in zip(leaves, got, answer, right, strict=True):
        if not is_inexact(mine.dtype):
            tied = _ties(mine, theirs, chosen.found) & ~fine
            leaf.ties = int(tied.sum())
            fine |= tied
    if (
        best is not Truth.OWN
        and time.process_time() < until
        and not all(bool(fine.all()) for fine in right)
    ):
        sizes = {each.indices.numel() for each in chosen.found}
        _perturb(model, best, inputs, got, answer, leaves, right, until, sizes)
    for mine, theirs, fine in zip(got, answer, right, strict=True):
        mine.copy_(torch.where(fine, mine, theirs.to(mine.dtype)))
    return leaves


def look_s(got: list[torch.Tensor], inputs: list[Any]) -> float:
    """Processor seconds for a look at an answer to these inputs, one tensor per output."""
    tensors = [each for each in layout.values(inputs) if isinstance(each, torch.Tensor)]
    elements = sum(each.numel() for each in (*got, *tensors))
    return min(MOST_S, LOOK_S + ELEMENT_S * elements)


def merged(parts: Iterable[list[Leaf]]) -> list[Leaf]:
    """Findings on whole outputs, from findings on their parts."""
    found: list[Leaf] = []
    for leaves in parts:
        found = found or [Leaf() for _ in leaves]
        for whole, part in zip(found, leaves, strict=True):
            whole.l2, whole.largest = max(whole.l2, part.l2), max(whole.largest, part.largest)
            whole.ties, whole.close = whole.ties + part.ties, whole.close + part.close
    return found


def as_json(leaves: list[Leaf]) -> list[dict[str, float]]:
    """Findings as dictionaries for JSON."""
    return [asdict(leaf) for leaf in leaves]


def _call(model: Any, given: list[Any], best: Truth) -> Any:
    return true_answer.call(model, given, best)


def _values(answer: Any) -> list[Any]:
    return list(layout.values(answer))


def _tensor(value: Any, like: torch.Tensor) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.reshape(like.shape).clone()
    return torch.full_like(
        like, value, dtype=torch.float64 if like.dtype.is_floating_point else like.dtype
    )


def _differs_not(mine: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    """Mask of the elements of an exact output that equal the expected ones; all False for an
    inexact output, which the referee compares.
    """
    return (
        torch.zeros_like(mine, dtype=torch.bool)
        if is_inexact(mine.dtype)
        else mine == theirs.to(mine.dtype)
    )


def _ties(mine: torch.Tensor, theirs: torch.Tensor, chosen: list[Selection]) -> torch.Tensor:
    """Mask of the elements that are indices of a value equal to the expected one's."""
    found = torch.zeros(mine.numel(), dtype=torch.bool, device=mine.device)
    if mine.dtype != torch.bool:
        for each in chosen:
            if each.indices.numel() == mine.numel():
                flat = each.indices.flatten()
                kept = _kept(flat, theirs.flatten().to(flat.dtype), each)
                indices = torch.where(kept, mine.flatten().long(), flat)
                shaped = indices.reshape(each.indices.shape)
                found |= kept & _are_indices_of_equals(shaped, each).flatten()
    return found.view(mine.shape)


def _kept(indices: torch.Tensor, theirs: torch.Tensor, chosen: Selection) -> torch.Tensor:
    """Mask of a selection's indices that an output has: all, or all that are not replaced by one
    constant that is no index (`where(valid, indices, -1)`); none in another output.
    """
    kept = theirs == indices
    others = theirs[~kept]
    is_fill = (others == others[:1]) & ((others < 0) | (others >= chosen.source.shape[chosen.dim]))
    return kept if bool(is_fill.all()) else torch.zeros_like(kept)


def _are_indices_of_equals(indices: torch.Tensor, chosen: Selection) -> torch.Tensor:
    source, dim = chosen.source, chosen.dim
    size = source.shape[dim]
    inside = (indices >= 0) & (indices < size)
    wide = source.double() if is_inexact(source.dtype) else source
    mine = wide.gather(dim, indices.clamp(0, size - 1))
    theirs = wide.gather(dim, chosen.indices)
    equal = (mine == theirs) | (mine.isnan() & theirs.isnan())
    if is_inexact(source.dtype) and not torch.equal(
        source.to(chosen.nominal).to(source.dtype), source
    ):
        equal |= (mine - theirs).abs() <= NEAR * unit(chosen.nominal) * torch.maximum(
            mine.abs(), theirs.abs()
        )
    if chosen.ordered:
        equal &= (mine != theirs) | (indices == chosen.indices)
    if chosen.name in WITHOUT_REPEATS:
        ordered = indices.sort(dim).values
        repeats = ordered.narrow(dim, 1, ordered.shape[dim] - 1) == ordered.narrow(
            dim, 0, ordered.shape[dim] - 1
        )
        equal &= ~repeats.any(dim, keepdim=True)
    return equal & inside


def _perturb(
    model: Any,
    best: Truth,
    inputs: list[Any],
    got: list[torch.Tensor],
    answer: list[torch.Tensor],
    leaves: list[Leaf],
    right: list[torch.Tensor],
    until: float,
    indices: Collection[int],
) -> None:
    """Measure the effect of rounding on each output, and mark elements that rounding decides as
    right.  Does neither if there is no time for enough perturbed answers.  Outputs with as many
    elements as `indices` may be such.
    """
    spreads = [torch.zeros_like(each, dtype=torch.float64) for each in got]
    low, high = [each.clone() for each in answer], [each.clone() for each in answer]
    lost = [_is_nan(each) for each in answer]
    met = [fine.clone() for fine in right]
    for sample in range(GAUGES + SAMPLES):
        if _all_met(got, met):
            break
        if time.process_time() > until:
            if sample < GAUGES + FEWEST:
                return
            break
        gauging = sample < GAUGES
        for index, each in enumerate(
            _perturbed(model, best, inputs, got, sample, 1.0 if gauging else SCALE)
        ):
            if not is_inexact(each.dtype):
                met[index] |= got[index] == each.to(got[index].dtype)
                decided_counts.reach(low[index], high[index], each)
            elif gauging:
                spreads[index] += (each - answer[index]).abs().square().nan_to_num()
            elif not each.is_complex():
                low[index], high[index] = (
                    torch.fmin(low[index], each),
                    torch.fmax(high[index], each),
                )
                lost[index] |= each.isnan()
    for index, (leaf, mine, theirs) in enumerate(zip(leaves, got, answer, strict=True)):
        if is_inexact(mine.dtype):
            margin = FLOORS.get(mine.dtype, (0.0, 0.0))[1] * _rms(theirs)
            jumps = (high[index] - low[index]).abs() > 4 * margin  # none of complex numbers
            if not mine.is_complex():
                met[index] = _decided(mine, theirs, low[index], high[index], lost[index], margin)
            _gauge(leaf, spreads[index].masked_fill_(jumps, 0) / GAUGES, _rms(theirs))
        elif mine.numel() not in indices and decided_counts.are_near(
            mine, theirs, low[index], high[index]
        ):
            leaf.close = int((~right[index]).sum())
            right[index].fill_(True)
        close = met[index] & ~right[index]
        count = int(close.sum())
        if count <= max(1, MOST * mine.numel()):
            leaf.close += count
            right[index] |= close


def _decided(
    mine: torch.Tensor,
    theirs: torch.Tensor,
    low: torch.Tensor,
    high: torch.Tensor,
    lost: torch.Tensor,
    margin: float,
) -> torch.Tensor:
    """Mask of the elements of an inexact output that rounding decides: they differ from the
    expected ones and lie between those of perturbed answers, some of which are `lost` (no number).
    """
    wide, between = mine.double(), (low - margin, high + margin)
    found = ((high - low).abs() > margin) & ((wide - theirs).abs() > margin)
    found &= (wide >= between[0]) & (wide <= between[1])
    return found | undefined_elements.are_undefined(wide, theirs, between, lost)


def _is_nan(answer: torch.Tensor) -> torch.Tensor:
    """Mask of the elements that are not a number."""
    inexact = is_inexact(answer.dtype)
    return answer.isnan() if inexact else torch.zeros_like(answer, dtype=torch.bool)


def _all_met(got: list[torch.Tensor], met: list[torch.Tensor]) -> bool:
    """Test whether the search is complete: all outputs are exact, and a perturbed
    answer has had each element.
    """
    return not any(is_inexact(each.dtype) for each in got) and all(bool(fine.all()) for fine in met)


def _gauge(leaf: Leaf, squares: torch.Tensor, rms: float) -> None:
    """Store relative errors, from the squared errors of elements without those that jump."""
    if rms and squares.numel():
        leaf.l2 = float(squares.mean().sqrt()) / rms
        leaf.largest = float(squares.amax().sqrt()) / rms


def _rms(values: torch.Tensor) -> float:
    return (
        float(values.abs().double().nan_to_num(posinf=0.0).square().mean().sqrt())
        if values.numel()
        else 0.0
    )


def _perturbed(
    model: Any, best: Truth, inputs: list[Any], got: list[torch.Tensor], sample: int, scale: float
) -> list[torch.Tensor]:
    to = torch.float32 if best is Truth.SINGLE else torch.float64
    found = rounding.perturbed(model, true_answer.widened(inputs, best), sample, scale, to)
    return [_tensor(leaf, view) for leaf, view in zip(_values(found), got, strict=True)]
