"""Divisions by tensors, and their logarithms and roots: a reference may guard them against zero,
and a candidate may leave that out, or divide where the reference does not.
"""

from __future__ import annotations

from typing import Any

import torch

_DIVISORS = {
    f"aten::{name}{ending}": place
    for place, names in (
        (0, ("log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "special_entr", "sqrt")),
        (1, ("div", "divide", "true_divide", "xlogy")),
    )
    for name in names
    for ending in ("", "_")
}
"""Operators, and the place of the tensor by which they divide, or of which they take a logarithm or
a root.
"""

_NORMS = ("aten::_fused_rms_norm", "aten::native_")
"""Beginnings of the names of norms."""


def divides(name: str, args: Any) -> bool:
    """Test whether an operator divides by a tensor of several numbers, or takes their logarithms or
    roots.
    """
    if name.startswith(_NORMS):
        return name.endswith("norm")
    divisor = args[_DIVISORS[name]] if name in _DIVISORS else None
    return isinstance(divisor, torch.Tensor) and divisor.is_floating_point() and divisor.numel() > 1
