"""Errors of outputs relative to the expected ones, for several calls: sums on the
device, everything else on the host.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch

from workers.protocol.roundoff import computable

AT_ONCE = 1 << 26
"""Elements compared at once: they are copied in fp64."""

LOOKED_AT = {"cpu": 1 << 22, "cuda": 1 << 26}
"""Elements of the largest output of which parts are looked at (kept_inputs.py, kept_slices.py,
wrong_slices.py), by kind of device: four million take a processor 0.4 s.
"""

_TINY = torch.finfo(torch.float64).tiny


def error_rows(
    *pairs: tuple[torch.Tensor, torch.Tensor],
    more: Sequence[torch.Tensor] = (),
    closely: bool = True,
    faint: float = 0.0,
    least: float = 0.0,
) -> list[tuple[float, ...]]:
    """Per call: the errors of each pair (see `_errors`), then the further figures in `more`.

    All figures are transferred together, because each transfer waits for the device, which others
    use as well.  A second transfer follows if an element is not finite, to find out how much of the
    output is wrong.  The device computes nothing but sums over elements: the threads of all
    evaluations take turns at every further operation.
    """
    for careful in (False, True):
        sums = [_sums(*pair, careful=careful) for pair in pairs]
        columns = [column.double() for column in [*itertools.chain(*sums), *more]]
        table = iter(torch.stack(columns).tolist() if columns else [])
        errors = [
            _errors(got, [next(table) for _ in each], careful, faint, least)
            for (got, _), each in zip(pairs, sums, strict=True)
        ]
        rows = [
            tuple(itertools.chain(*row))
            for row in zip(*errors, *(zip(column) for column in table), strict=True)
        ]
        if all((row[2] and not closely) or _are_finite(row, len(pairs)) for row in rows):
            break
    return rows


def parts(*outputs: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Parts of outputs, (calls, elements) each, with at most AT_ONCE elements: the
    same part of each output.
    """
    columns = max(1, AT_ONCE // max(1, outputs[0].shape[0]))
    return zip(*(torch.split(each, columns, dim=1) for each in outputs), strict=True)


def is_finite(output: torch.Tensor) -> bool:
    """Test whether all elements are finite.  `output`: (calls, elements)."""
    return bool(
        torch.stack([torch.isfinite(computable(part)).all() for (part,) in parts(output)]).all()
    )


def same_nonfinite(got: torch.Tensor, own: torch.Tensor) -> bool:
    """Test whether an output is NaN, or the same infinity, wherever the reference's own is, and
    nowhere else.  Both (calls, elements), in the output's type.
    """
    if not (got.is_floating_point() or got.is_complex()):
        return True
    found = []
    for each in parts(got, own):
        finite, same = _finite_and_same(*map(computable, each))
        found.append((finite | same).all())
    return bool(torch.stack(found).all())


def _finite_and_same(x: torch.Tensor, r: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Masks of the elements that are finite in both, and of those that are equal, NaN to NaN."""
    return torch.isfinite(x) & torch.isfinite(r), (x == r) | (torch.isnan(x) & torch.isnan(r))


def _are_finite(row: Sequence[float], pairs: int) -> bool:
    return all(math.isfinite(row[3 * pair]) for pair in range(pairs))


def _errors(
    got: torch.Tensor, sums: Sequence[list[float]], careful: bool, faint: float, least: float
) -> list[tuple[float, float, float]]:
    """Per call: relative L2 error, largest error over rms, and number of positions at
    which finiteness disagrees, from `_sums`.  No answer's norm counts as smaller than
    `least`, nor than the share `faint` of the median call's.

    The L2 error is not finite if some element is not.  Then only a careful pass is
    exact: another one counts one position if everything expected is finite in the
    output's own type, and none otherwise.
    """
    calls, elements = got.shape
    if not sums:
        return [(0.0, 0.0, 0.0)] * calls
    if len(sums) == 1:
        return [(wrong / elements, wrong / elements, 0.0) for wrong in sums[0]]
    norms = sums[1]
    least = max(least, faint * sorted(map(finite, norms))[(calls - 1) // 2])
    most = torch.finfo(got.dtype).max
    found = []
    for l2, norm, largest, *positions in zip(*sums, strict=True):
        bad = positions[0] if careful else float(not math.isfinite(l2) and norm <= most)
        size = max(norm, least, _TINY)  # NaN if the norm is
        found.append((l2 / size, largest / size * elements**0.5, bad))
    return found


def _sums(got: torch.Tensor, expected: torch.Tensor, *, careful: bool) -> list[torch.Tensor]:
    """Per call, in fp64: L2 norms of the difference and of the expected output, the largest
    difference, and, if `careful`, the number of positions at which finiteness disagrees.  For an
    exact output, the number of differing elements; for one without elements, nothing.
    """
    if got.shape[1] == 0:
        return []
    if not got.is_floating_point() and not got.is_complex():
        return [(got != expected).sum(dim=1)]
    if got.numel() <= AT_ONCE:
        return _partial_sums(got, expected, careful=careful)
    found = [_partial_sums(*part, careful=careful) for part in parts(got, expected)]
    l2, norm, largest, *bad = (torch.stack(column) for column in zip(*found, strict=True))
    whole = [
        torch.linalg.vector_norm(l2, dim=0),
        torch.linalg.vector_norm(norm, dim=0),
        largest.amax(dim=0),
    ]
    return [*whole, *(each.sum(dim=0) for each in bad)]


def _partial_sums(
    got: torch.Tensor, expected: torch.Tensor, *, careful: bool
) -> list[torch.Tensor]:
    """`_sums` of some of the elements."""
    wide = torch.complex128 if got.is_complex() else torch.float64
    r = expected.to(wide)
    # Other values are widened as they are subtracted, in one pass.
    x = got.to(wide) if careful or got.itemsize == 1 else got
    difference = x - r
    bad = []
    if careful:
        finite, same = _finite_and_same(x, r)
        # The fp64 reference may be finite where its own type overflows; infinity is
        # the right answer there.
        overflow = torch.isinf(x) & torch.isfinite(r) & (r.abs() > torch.finfo(got.dtype).max)
        bad = [(~finite & ~same & ~overflow).sum(dim=1)]
        difference = difference.masked_fill_(~finite, 0)
        r = r.masked_fill(~finite, 0)
    norm = torch.linalg.vector_norm
    return [
        norm(difference, dim=1),
        norm(r, dim=1),
        norm(difference, ord=float("inf"), dim=1),
        *bad,
    ]


def finite(value: float) -> float:
    """The value, or 0 where it is infinite or NaN."""
    return value if math.isfinite(value) else 0.0
