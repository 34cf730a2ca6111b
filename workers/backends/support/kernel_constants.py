"""Constants of an interpreted launch as JSON, from which the builder restores them for the
compiler: numbers, texts, Triton's element types, functions under `jit`, and tuples of these.

A launch with any other object is not compiled: the compiler would refuse the kernel for a text in
place of the object.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import triton.language as tl

from workers.backends.support import kernel_digest

UNKNOWN = {"unknown": True}
"""JSON form of a value that has none."""


class UnknownConstantError(ValueError):
    """Error: a constant without a JSON form."""


def written(value: Any) -> Any:
    """The JSON form of a constant; UNKNOWN if it has none."""
    if isinstance(value, tl.constexpr):
        return written(value.value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tl.dtype):
        return {"dtype": value.name}
    if isinstance(value, tuple | list):
        return {"tuple": [written(each) for each in value]}
    function = getattr(value, "fn", None)
    if isinstance(function, FunctionType):
        return {"function": function.__name__, "digest": kernel_digest.digest(value)}
    return UNKNOWN


def read(form: Any, function: Callable[[str, str], Any]) -> Any:
    """The constant of a JSON form.  `function(name, digest)` returns a function under `jit`, or
    None. Raises UnknownConstantError.
    """
    if not isinstance(form, dict):
        return form
    if "dtype" in form:
        return tl.dtype(form["dtype"])
    if "tuple" in form:
        return tuple(read(each, function) for each in form["tuple"])
    found = function(form["function"], form["digest"]) if "function" in form else None
    if found is None:
        raise UnknownConstantError(form)
    return found
