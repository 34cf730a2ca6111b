"""Comparison of answers to unusual inputs with answers to usual ones: is the variant
inside the problem's domain?
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from workers.protocol.roundoff import FLOORS, computable
from workers.referee.comparison.correctness import CLOSE, GROSS_L2
from workers.referee.comparison.output_errors import error_rows, finite, parts

SURVIVES = 10.0
"""See `objections`."""

FEW_DIFFER = 0.05
"""Share of an answer's integers that rounding decides at most: of the second look, too
(workers/shims/problem/answers/equivalent_answers.py).
"""

FADED, EXPLODED = 1e-3, 1e3
"""See `objections`."""

NOT_A_NUMBER = "the reference's answer is NaN in places, on the problem's own inputs nowhere"

VANISHED = 1e-9
"""Size of an answer that says nothing in any case, in multiples of the usual one."""


ROUNDINGS = 2.0
"""Error of a kernel that rounds near one, in steps of numbers of the usual answer's size."""


@dataclass(frozen=True, kw_only=True)
class AnswerSize:
    """Summary of an output of a usual call."""

    rms: float
    """Root mean square of the expected output."""
    error: float
    """Relative L2 error of the reference in its own precision; of integers the share of those that
    differ.
    """
    has_nan: bool = False
    """True if some elements of the expected output are NaN."""


def answer_size(values: torch.Tensor, expected: torch.Tensor) -> AnswerSize:
    """Size and error of one call's output; both arguments (1, elements)."""
    if not (values.is_floating_point() or values.is_complex()):
        return AnswerSize(rms=0.0, error=max(_differing(values, expected)))
    more = [root_mean_square(expected), _has_nan(expected)]
    [(error, _, _, rms, has_nan)] = error_rows((values, expected), more=more)
    return AnswerSize(rms=rms, error=finite(error), has_nan=bool(has_nan))


def least_norm(size: AnswerSize, dtype: torch.dtype, elements: int) -> float:
    """Least norm of an answer to unusual inputs that errors are relative to: however faint it is,
    `2 * sigmoid(2 * x) - 1` rounds near one, and so does `log(1 + exp(x))`.  Narrower types are
    computed with in fp32.
    """
    is_wide = dtype in (torch.float64, torch.complex128)
    step = torch.finfo(torch.float64 if is_wide else torch.float32).eps
    return ROUNDINGS * step / GROSS_L2 * size.rms * math.sqrt(elements)


def objections(
    baseline: torch.Tensor,
    expected: torch.Tensor,
    before: AnswerSize,
    *,
    ceiling: bool = True,
    floor: bool = True,
) -> list[str]:
    """Per call, the reason why the reference's answer to unusual inputs cannot be
    used; empty if it can.

    The reference's own precision must be about as accurate as on usual inputs, and its answer of
    the same order of magnitude: relative to a vanished answer every rounding error is large, and an
    exploded one belongs to another problem.  NaN where a usual answer has none comes of a division
    by zero on the way, of which comparisons make one number in the reference and another in a
    kernel.  `baseline`, `expected`: (calls, elements) of unusual calls; `before`: the same output
    of a usual call; `ceiling`, `floor`: limit the size of answers above, and below.
    """
    if not (baseline.is_floating_point() or baseline.is_complex()):
        most = max(FEW_DIFFER, SURVIVES * before.error)
        return [_objection_to(share, most) for share in _differing(baseline, expected)]
    least_error = FLOORS.get(baseline.dtype, (0.0, 0.0))[0]
    limit = SURVIVES * max(before.error, least_error / CLOSE[0])
    more = [root_mean_square(expected), _has_nan(expected)]
    table = error_rows((baseline, expected), more=more)
    most = _most(before, ceiling=ceiling)
    sizes = ((FADED if floor else VANISHED) * before.rms, most)
    return [
        NOT_A_NUMBER
        if nan and not before.has_nan
        else _objection(bad, l2, limit, here, before.rms, sizes)
        for l2, _, bad, here, nan in table
    ]


def looks_usual(own: torch.Tensor, before: AnswerSize, *, ceiling: bool = True) -> bool:
    """Test whether answers are finite and of the usual size: whether `objections` might have none.
    `own`: (calls, elements) of the reference's own answers; the other arguments as there.
    """
    if not (own.is_floating_point() or own.is_complex()):
        return True
    wide = torch.complex128 if own.is_complex() else torch.float64
    norm = torch.linalg.vector_norm  # with another type it makes a copy in that type
    norms = [norm(computable(part), dim=1, dtype=wide) for (part,) in parts(own)]
    sizes = norm(torch.stack(norms), dim=0) / max(1, own.shape[1]) ** 0.5
    most = _most(before, ceiling=ceiling)
    return all(
        math.isfinite(size) and FADED * before.rms <= size <= most for size in sizes.tolist()
    )


def _most(before: AnswerSize, *, ceiling: bool) -> float:
    return EXPLODED * before.rms if ceiling and before.rms else math.inf


def _objection(
    bad: float, l2: float, limit: float, here: float, usual_rms: float, sizes: tuple[float, float]
) -> str:
    """`sizes`: the least and the largest that an answer may have."""
    if bad or not math.isfinite(l2):
        return "the reference's answer is not finite in its own precision"
    if l2 > limit:
        return (
            f"the reference's own answer errs by {l2:.1e}, on the problem's own inputs by at most"
            f" {limit:.1e}"
        )
    if not sizes[0] <= here <= sizes[1]:
        times = here / max(usual_rms, 1e-300)
        return (
            f"the reference's answer is {times:.1e} times as large as on the problem's own inputs"
        )
    return ""


def _differing(values: torch.Tensor, expected: torch.Tensor) -> list[float]:
    """Per call, the share of the integers that differ."""
    shares: list[float] = (values != expected).double().mean(dim=1).tolist()
    return shares


def _objection_to(share: float, most: float) -> str:
    """The reason against integers of which a share differs from the exact ones."""
    if share <= most:
        return ""
    return f"{share:.0%} of the reference's own integers are not the exact ones: at most {most:.0%}"


def _has_nan(values: torch.Tensor) -> torch.Tensor:
    """Per call, 1 if an element is NaN: then the norm is, and not if some are infinite."""
    norm: torch.Tensor = torch.linalg.vector_norm(values, dim=1)
    return norm.isnan()


def root_mean_square(values: torch.Tensor) -> torch.Tensor:
    """Root mean square per call, over the finite elements."""
    norm: torch.Tensor = (
        torch.linalg.vector_norm(values, dim=1).double() / max(1, values.shape[1]) ** 0.5
    )
    if bool(torch.isfinite(norm).all()):
        return norm
    sums = []
    for (part,) in parts(values):
        finite = torch.isfinite(part)
        squares = torch.where(finite, part, torch.zeros_like(part)).abs().double().square()
        sums.append(torch.stack([squares.sum(dim=1), finite.sum(dim=1).double()]))
    total, count = torch.stack(sums).sum(dim=0).unbind()
    return (total / count.clamp(min=1)).sqrt()
