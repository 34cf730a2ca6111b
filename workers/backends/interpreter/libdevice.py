"""NVIDIA's library of mathematical functions (libdevice) for Triton's interpreter, by torch's
functions.

Kernels import it as `triton.language.extra.libdevice`, whose functions are empty because a compiler
replaces them by those of its target, or as `triton.language.extra.cuda.libdevice`, whose functions
request a symbol from the compiler.  Under the interpreter both forms check the types of arguments
as for a GPU and look the symbol up in SYMBOLS.

A function that is not in the table raises NotImplementedError (attributed in
workers/referee/session/fault_attribution.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy
import torch
from triton.language.extra import libdevice as of_any_target
from triton.language.extra.cuda import libdevice as of_cuda
from triton.runtime import interpreter

from workers.backends.interpreter import libdevice_integers
from workers.backends.recording import library_work

Function = Callable[..., torch.Tensor]


def _cube_root(x: torch.Tensor) -> torch.Tensor:
    return torch.sign(x) * torch.abs(x) ** (1 / 3)


def _tgamma(x: torch.Tensor) -> torch.Tensor:
    sign = torch.where((x < 0) & (torch.floor(x) % 2 != 0), -1.0, 1.0)
    return sign.to(x.dtype) * torch.exp(torch.lgamma(x))


_OF_ONE: dict[str, Function] = {
    "acos": torch.acos, "acosh": torch.acosh, "asin": torch.asin, "asinh": torch.asinh,
    "atan": torch.atan,
    "atanh": torch.atanh, "cbrt": _cube_root, "ceil": torch.ceil, "cos": torch.cos,
    "cosh": torch.cosh,
    "cospi": lambda x: torch.cos(torch.pi * x), "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "erf": torch.erf, "erfc": torch.erfc, "erfcx": torch.special.erfcx, "erfinv": torch.erfinv,
    "exp": torch.exp,
    "exp10": lambda x: 10.0**x, "exp2": torch.exp2, "expm1": torch.expm1, "fabs": torch.abs,
    "floor": torch.floor,
    "j0": torch.special.bessel_j0, "j1": torch.special.bessel_j1, "lgamma": torch.lgamma,
    "log": torch.log,
    "log10": torch.log10, "log1p": torch.log1p, "log2": torch.log2, "nearbyint": torch.round,
    "normcdf": torch.special.ndtr, "normcdfinv": torch.special.ndtri,
    "rcbrt": lambda x: 1 / _cube_root(x),
    "rint": torch.round, "round": libdevice_integers.away_from_zero,
    "rsqrt": torch.rsqrt, "sin": torch.sin, "sinh": torch.sinh,
    "sinpi": lambda x: torch.sin(torch.pi * x), "sqrt": torch.sqrt, "tan": torch.tan,
    "tanh": torch.tanh,
    "tgamma": _tgamma, "trunc": torch.trunc, "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
}  # fmt: skip
_OF_SEVERAL: dict[str, Function] = {
    "atan2": torch.atan2, "copysign": torch.copysign, "fdim": lambda x,
    y: torch.clamp(x - y, min=0),
    "fma": lambda x, y, z: (x.double() * y.double() + z.double()).to(x.dtype), "fmod": torch.fmod,
    "hypot": torch.hypot,
    "nextafter": torch.nextafter, "pow": torch.pow, "remainder": lambda x,
    y: x - y * torch.round(x / y),
    "rhypot": lambda x, y: 1 / torch.hypot(x, y),
}  # fmt: skip
_BY_HARDWARE = ("cos", "exp", "exp10", "log", "log10", "log2", "sin", "tan")
"""Functions with fast fp32 variants in hardware, which are less exact than the ones used here."""

_TO_NEAREST: dict[str, Function] = {
    "add": torch.add, "div": torch.div, "mul": torch.mul, "rcp": torch.reciprocal,
    "sqrt": torch.sqrt, "sub": torch.sub,
}  # fmt: skip

SYMBOLS: dict[str, Function] = {
    **libdevice_integers.SYMBOLS,
    **{
        f"__nv_{name}{of}": function
        for name, function in (_OF_ONE | _OF_SEVERAL).items()
        for of in ("", "f")
    },
    **{
        f"__nv_{of}{name}_rn": function
        for name, function in _TO_NEAREST.items()
        for of in ("d", "f")
    },
    **{f"__nv_fast_{name}f": _OF_ONE[name] for name in _BY_HARDWARE},
    **{f"__nv_isinf{of}": torch.isinf for of in ("d", "f")},
    **{f"__nv_isnan{of}": torch.isnan for of in ("d", "f")},
    **{f"__nv_signbit{of}": torch.signbit for of in ("d", "f")},
    "__nv_abs": torch.abs,
    "__nv_llabs": torch.abs,
    "__nv_finitef": torch.isfinite,
    "__nv_isfinited": torch.isfinite,
    "__nv_fast_fdividef": torch.div,
    "__nv_fast_powf": torch.pow,
    "__nv_frsqrt_rn": torch.rsqrt,
    "__nv_powi": torch.pow,
    "__nv_powif": torch.pow,
    "__nv_saturatef": lambda x: torch.clamp(x, 0, 1),
}
"""Functions by the symbol that a compiler links; those in fp32 mostly end with f."""


def install() -> None:
    """Install these functions in the interpreter."""
    builder: Any = interpreter.InterpreterBuilder
    builder.create_extern_elementwise = _elementwise
    for name, function in list(vars(of_cuda).items()):
        if getattr(function, "__triton_builtin__", False):
            bound = functools.partial(function, _semantic=interpreter.interpreter_semantic)
            for module in (of_cuda, of_any_target):
                setattr(module, name, bound)


@library_work.unseen()
def _elementwise(
    _builder: object,
    _name: str,
    _path: str,
    symbol: str,
    arguments: list[Any],
    kind: Any,
    _pure: bool,
) -> Any:
    """Replacement of create_extern_elementwise; arguments have one shape or are scalars."""
    function = SYMBOLS.get(symbol)
    if function is None:
        raise NotImplementedError(f"libdevice's {symbol} not supported in interpreter mode")
    shape = numpy.broadcast_shapes(*(each.data.shape for each in arguments))
    tensors = [
        torch.from_numpy(numpy.array(numpy.broadcast_to(each.data, shape))) for each in arguments
    ]
    element = kind.scalar
    dtype = numpy.dtype({"fp32": "float32", "fp64": "float64"}.get(element.name, element.name))
    return interpreter.TensorHandle(function(*tensors).numpy().astype(dtype), element)
