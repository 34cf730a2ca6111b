"""The worst element of a wrong output: index, expected and actual value.  It helps people find
the mistake and decides nothing.
"""

from __future__ import annotations

import math

import torch

from app.domain.output_checks import Element

AT_ONCE = 1 << 24
"""Elements compared at once: they are copied in fp64."""


def element(
    got: torch.Tensor,
    expected: torch.Tensor,
    shape: tuple[int, ...],
    tolerance: tuple[float, float] | None,
) -> Element | None:
    """The element of one call's output that exceeds its limit most; None if the outputs are equal.

    `got`, `expected`: (elements,), the latter in fp64 or exact; `tolerance`: (rtol, atol) if
    elements have a limit of their own, else the largest difference counts.  An element that is
    finite on one side only exceeds all others.
    """
    if got.numel() == 0 or got.numel() != expected.numel():
        return None
    tops = [
        torch.stack([values.double() for values in _excess(mine, right, tolerance).max(dim=0)])
        for mine, right in zip(
            torch.split(got, AT_ONCE), torch.split(expected, AT_ONCE), strict=True
        )
    ]
    table = torch.stack(tops).tolist()
    part = max(range(len(table)), key=lambda row: table[row][0])
    excess, offset = table[part]
    if not excess > 0:
        return None
    flat = part * AT_ONCE + int(offset)
    return Element(
        index=_unravelled(flat, shape),
        expected=_text(expected[flat].item()),
        got=_text(got[flat].item()),
    )


def _excess(
    got: torch.Tensor, expected: torch.Tensor, tolerance: tuple[float, float] | None
) -> torch.Tensor:
    wide = torch.complex128 if got.is_complex() or expected.is_complex() else torch.float64
    x, r = got.to(wide), expected.to(wide)
    rtol, atol = tolerance or (0.0, 0.0)
    excess = (x - r).abs() - (rtol * r.abs() + atol)
    same = (x == r) | (torch.isnan(x) & torch.isnan(r))
    one_sided = torch.isfinite(x) != torch.isfinite(r)
    excess = torch.where(
        one_sided | ~torch.isfinite(excess), torch.full_like(excess, math.inf), excess
    )
    return torch.where(same, torch.full_like(excess, -math.inf), excess)


def _unravelled(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Index in the output's shape of a flat index."""
    found: list[int] = []
    for size in reversed(shape):
        flat, index = divmod(flat, max(1, size))
        found.append(index)
    return tuple(reversed(found))


def _text(value: complex | float | bool) -> str:
    return f"{value:.7g}" if isinstance(value, (float, complex)) else str(value)
