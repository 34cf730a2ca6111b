"""COLLECT: names that models expect in `triton.language` and that Triton has elsewhere."""

from __future__ import annotations

import re

_MISSING = re.compile(r"module 'triton\.language(?:\.\w+)?' has no attribute '(?P<name>\w+)'")

LIBDEVICE = re.compile(
    "acos|acosh|asin|asinh|atan|atan2|atanh|cbrt|copysign|cosh|erfc|erfinv|expm1|fmod|hypot|isinf"
    "|isnan|lgamma|log10|log1p|pow|round|sinh|tan|tanh|trunc"
)
"""Functions of `triton.language.extra.libdevice` that `triton.language` lacks."""

OTHERWISE = {
    "gelu": "0.5 * x * (1 + tl.erf(x * 0.7071067811865476))",
    "mean": "tl.sum(x, axis) / n",
    "relu": "tl.maximum(x, 0.0)",
    "shared": "nothing: Triton places blocks in shared memory by itself",
    "silu": "x * tl.sigmoid(x)",
    "sync": "tl.debug_barrier()",
    "syncthreads": "tl.debug_barrier()",
}
"""Replacements of names that no library of Triton's has."""


def hint(message: str) -> str:
    """Sentence on the name that a message says is missing, with a space before it, or ""."""
    found = _MISSING.search(message)
    name = found["name"] if found else ""
    if LIBDEVICE.fullmatch(name):
        return (
            f" Triton has {name} in libdevice: from triton.language.extra import libdevice, then"
            f" libdevice.{name}."
        )
    return f" In place of {name} write {OTHERWISE[name]}." if name in OTHERWISE else ""
