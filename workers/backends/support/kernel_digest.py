"""Digest of a kernel, by which a builder knows that it compiles the function that was interpreted.

A candidate can test whether kernels are interpreted, and define another kernel, helper or constant
in that case.  So the process that runs the candidate and the one that compiles it
(workers/shims/builder.py) each describe a kernel by its byte code, with everything that it refers
to, and the digests must agree.

This does not guard against code that a candidate puts into the interpreter itself.  The
interpreter's loads and stores are counted (workers/backends/recording/library_work.py), and a
kernel that moves nothing is suspect.
"""

from __future__ import annotations

import dis
import hashlib
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

from triton.language import constexpr, dtype
from triton.runtime.jit import JITFunction

DEEPEST = 20
"""Depth of helpers that call helpers; deeper ones are described by their names only."""


def digest(function: Any) -> str:
    """Digest of a Python function, or of the object that `triton.jit` makes from one."""
    return hashlib.sha256(_described(function, set(), 0).encode()).hexdigest()[:32]


def _described(value: Any, seen: set[int], depth: int) -> str:
    """Description of a value; the same text for values with the same effect in a kernel."""
    while not isinstance(value, FunctionType) and hasattr(value, "fn"):
        if _is_rewritten(value):
            return "a function whose compiler is given another source"
        value = value.fn  # below @jit, @autotune and @heuristics
    if (
        isinstance(value, partial)
        and isinstance(value.func, FunctionType)
        and not _is_of_the_candidate(value.func)
    ):
        value = value.func  # a function of libdevice (workers/backends/interpreter/libdevice.py)
    if isinstance(value, FunctionType):
        if id(value) in seen or depth > DEEPEST or not _is_of_the_candidate(value):
            return f"function {value.__qualname__}"
        return _function(value, seen | {id(value)}, depth + 1)
    if isinstance(value, constexpr):
        return f"constexpr {_described(value.value, seen, depth)}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(_described(each, seen, depth) for each in value)}]"
    if isinstance(value, dtype):
        return f"type {value.name}"
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if value is None or isinstance(value, bool | int | float | str | bytes | complex):
        return repr(value)
    return f"a {type(value).__qualname__}"


def _is_rewritten(function: Any) -> bool:
    """Test whether the compiler would receive another text than the function's own."""
    return isinstance(function, JITFunction) and function.src != JITFunction(function.fn).src


def _is_of_the_candidate(function: FunctionType) -> bool:
    """Test whether a function is the candidate's.  Functions of Triton and torch are patched while
    the interpreter runs, and are the same in every process.
    """
    return function.__module__.partition(".")[0] not in ("triton", "torch")


def _function(function: FunctionType, seen: set[int], depth: int) -> str:
    names = sorted(_names(function.__code__))
    around = {name: function.__globals__[name] for name in names if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            around[name] = cell.cell_contents
        except ValueError:  # not bound yet
            around[name] = None
    values = (f"{name} = {_described(value, seen, depth)}" for name, value in around.items())
    return f"{_code(function.__code__)} with {'; '.join(values)}"


def _names(code: CodeType) -> set[str]:
    """Global names that the code reads, without names of attributes: the interpreter adds modules
    of its own to a kernel's globals, so that the `math` of `tl.math.exp2` would be found there, but
    not outside of the interpreter.
    """
    read = {
        each.argval
        for each in dis.get_instructions(code)
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    nested = (each for each in code.co_consts if isinstance(each, CodeType))
    return read.union(*map(_names, nested))


def _code(code: CodeType) -> str:
    constants = [
        _code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts
    ]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"
