"""Constants of an interpreted launch as JSON, and back for the compiler: numbers, texts, Triton's
element types, functions under `jit`, and tuples of these.

Any other object is left out, and the launch is not compiled: a compiler that is given a text in
place of an object would refuse a kernel for it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import triton.language as tl

from workers.backends.support import kernel_digest

UNKNOWN = {"unknown": True}
"""Stands for a value that JSON has no form for here."""


class UnknownConstantError(ValueError):
    """A value that was left out."""


def written(value: Any) -> Any:
    """A JSON form; UNKNOWN where there is none."""
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
    """The value of such a form.  `function` finds a function under `jit` by its name and digest, or
    returns None. Raises UnknownConstantError.
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
