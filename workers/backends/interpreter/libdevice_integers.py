"""Functions of libdevice from or to integers, by torch's: conversions, bits, powers of two.

A number beyond the range of its integer becomes the nearest one of the range, and NaN becomes 0,
or the least number for 64 bits, as the hardware's conversion does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

Function = Callable[..., torch.Tensor]

_ROUNDINGS: dict[str, Function] = {
    "rd": torch.floor,
    "rn": torch.round,
    "ru": torch.ceil,
    "rz": torch.trunc,
}
_RANGES = {"int": (-(2**31), 2**31 - 1), "uint": (0, 2**32 - 1), "ll": (-(2**63), 2**63 - 1)}
_BELOW_2_63 = 2.0**63 - 1024
"""The largest double that is a 64-bit integer."""


def away_from_zero(x: torch.Tensor) -> torch.Tensor:
    """Round to nearest, halves away from zero."""
    return torch.sign(x) * torch.floor(torch.abs(x) + 0.5)


def _whole(rounding: Function, kind: str, x: torch.Tensor) -> torch.Tensor:
    low, high = _RANGES[kind]
    number, most = rounding(x.double()), min(high, _BELOW_2_63)
    within = torch.clamp(number.nan_to_num(0.0), low, most).to(torch.int64)
    found = torch.where(number > most, high, within)
    return torch.where(number.isnan(), low if kind == "ll" else 0, found)


def _bits(width: int, x: torch.Tensor) -> torch.Tensor:
    """Bits of each number along a last dimension, the lowest first."""
    return (x.to(torch.int64)[..., None] >> torch.arange(width)) & 1


def _count(width: int, x: torch.Tensor) -> torch.Tensor:
    return _bits(width, x).sum(-1)


def _leading_zeros(width: int, x: torch.Tensor) -> torch.Tensor:
    return (_bits(width, x).flip(-1).cumsum(-1) == 0).sum(-1)


def _first(width: int, x: torch.Tensor) -> torch.Tensor:
    """Place of the lowest bit, from 1; 0 where there is none."""
    bits = _bits(width, x)
    return torch.where(bits.any(-1), (bits.cumsum(-1) == 0).sum(-1) + 1, 0)


def _reversed(width: int, x: torch.Tensor) -> torch.Tensor:
    return (_bits(width, x).flip(-1) << torch.arange(width)).sum(-1)


def _exponent(x: torch.Tensor) -> torch.Tensor:
    return torch.frexp(x).exponent - 1


def _same(x: torch.Tensor) -> torch.Tensor:
    return x


SYMBOLS: dict[str, Function] = {
    **{
        f"__nv_{of}2{kind}_{name}": partial(_whole, rounding, kind)
        for of in ("float", "double")
        for kind in _RANGES
        for name, rounding in _ROUNDINGS.items()
    },
    **{f"__nv_llrint{of}": partial(_whole, torch.round, "ll") for of in ("", "f")},
    **{f"__nv_llround{of}": partial(_whole, away_from_zero, "ll") for of in ("", "f")},
    **{
        f"__nv_{of}2{to}_rn": _same  # the interpreter rounds to nearest when it stores a result
        for of in ("int", "uint", "ll", "ull")
        for to in ("float", "double")
    },
    "__nv_double2float_rn": _same,
    "__nv_float_as_int": lambda x: x.view(torch.int32),
    "__nv_float_as_uint": lambda x: x.view(torch.int32),
    "__nv_int_as_float": lambda x: x.view(torch.float32),
    "__nv_uint_as_float": lambda x: x.view(torch.float32),
    "__nv_double_as_longlong": lambda x: x.view(torch.int64),
    "__nv_longlong_as_double": lambda x: x.view(torch.float64),
    **{
        f"__nv_{name}{of}": partial(function, width)
        for name, function in {
            "brev": _reversed,
            "clz": _leading_zeros,
            "ffs": _first,
            "popc": _count,
        }.items()
        for of, width in (("", 32), ("ll", 64))
    },
    "__nv_mulhi": lambda x, y: (x.to(torch.int64) * y.to(torch.int64)) >> 32,
    **{f"__nv_{name}{of}": torch.ldexp for name in ("ldexp", "scalbn") for of in ("", "f")},
    **{f"__nv_{name}{of}": _exponent for name in ("ilogb", "logb") for of in ("", "f")},
}
"""Functions by the symbol that a compiler links."""
