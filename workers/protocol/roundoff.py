"""Rounding errors by element type: unit roundoffs, and the least limits for an output's error.

The referee compares with these limits (workers/referee/comparison/correctness.py); a
reference's process uses them to distinguish rounding from randomness and to perturb its own
answer (workers/shims/problem/answers/rounding.py).
"""

from __future__ import annotations

import math

import torch

FLOORS: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-12, 1e-11),
    torch.float32: (1e-5, 1e-4),
    torch.float16: (1e-3, 1e-2),
    torch.bfloat16: (1e-2, 1e-1),
    torch.complex64: (1e-5, 1e-4),
    torch.complex128: (1e-12, 1e-11),
    torch.float8_e4m3fn: (3e-2, 3e-1),
    torch.float8_e5m2: (6e-2, 6e-1),
    torch.float8_e8m0fnu: (6e-2, 1.1),
}
"""Least limits for ‖x−R‖/‖R‖ and max|x−R|/rms(R), by element type.  Rounding an fp32 result to fp16
errs by 2e-4 to 3e-4 and to TF32 by about the same: both are refused for fp32.  An fp16 product of
operands rounded to bf16 errs by 1.8e-3 to 2.1e-3 (measured): refused for fp16.  Rounding to e4m3
errs by 2.6e-2, to e5m2 by 5.3e-2, and cutting off by twice as much.
"""

TF32_DROPPED_BITS = 13
"""Bits of the significand of fp32 that TF32 lacks."""

AT_ONCE = 1 << 26
"""Elements compared at once: the arithmetic copies them in fp64."""


def is_integer(dtype: torch.dtype) -> bool:
    """Test for whole numbers of more than two values."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def are_integers(value: object) -> bool:
    """Test for a tensor of such numbers."""
    return isinstance(value, torch.Tensor) and is_integer(value.dtype)


def is_inexact(dtype: torch.dtype) -> bool:
    """Test whether values of this type are rounded."""
    return dtype.is_floating_point or dtype.is_complex


def unit(dtype: torch.dtype) -> float:
    """Unit roundoff: the largest relative error of rounding to nearest."""
    return torch.finfo(dtype).eps / 2


def computable(x: torch.Tensor) -> torch.Tensor:
    """The tensor, in fp32 if it is of floats of one byte: torch hardly computes in
    those, on a GPU even less.
    """
    return x.float() if x.is_floating_point() and x.itemsize == 1 else x


def errors(values: torch.Tensor, truth: torch.Tensor) -> tuple[float, float]:
    """Relative L2 error, and the largest error over the root mean square, of the elements that are
    finite in both.  For exact types both figures are the share of differing elements.
    """
    if not values.numel():
        return 0.0, 0.0
    parts = list(
        zip(*(torch.split(each.flatten(), AT_ONCE) for each in (values, truth)), strict=True)
    )
    if not is_inexact(values.dtype):
        wrong = sum(int((mine != theirs.to(mine.dtype)).sum()) for mine, theirs in parts)
        return wrong / values.numel(), wrong / values.numel()
    sums = [_sums(mine, theirs) for mine, theirs in parts]
    apart, size = (math.hypot(*column) for column in list(zip(*sums, strict=True))[:2])
    size = max(size, torch.finfo(torch.float64).tiny)
    return apart / size, max(largest for _, _, largest in sums) / size * values.numel() ** 0.5


def _sums(values: torch.Tensor, truth: torch.Tensor) -> tuple[float, float, float]:
    """L2 norms of the difference and of the truth, and the largest difference, of the
    elements that are finite in both.
    """
    wide = torch.complex128 if values.dtype.is_complex else torch.float64
    x, r = values.to(wide), truth.to(wide)
    finite = torch.isfinite(x) & torch.isfinite(r)
    x, r = torch.where(finite, x, 0), torch.where(finite, r, 0)
    apart = x - r
    norms = torch.linalg.vector_norm(apart), torch.linalg.vector_norm(r)
    largest = torch.linalg.vector_norm(apart, ord=float("inf"))
    found: list[float] = torch.stack([*norms, largest]).tolist()
    return found[0], found[1], found[2]
