"""Precision classes: the widest type that explains an error by its rounding."""

from __future__ import annotations

_CLASSES = (
    ("float64", 1e-11),
    ("float32", 1e-5),
    ("tf32", 1.2e-3),
    ("bfloat16", 1e-2),
    ("float8_e4m3", 6e-2),
)
"""Names and the largest relative L2 error that rounding to them explains; TF32 and
float16 round alike (2⁻¹¹).
"""

CLASS_NAMES = (*(name for name, _ in _CLASSES), "none")
"""Values of `precision_class`, by increasing error."""


def precision_class(rel_l2: float) -> str:
    """Widest type that explains a relative L2 error by its rounding; `none` if none does."""
    return next((name for name, limit in _CLASSES if rel_l2 <= limit), "none")
