"""Triton's functions under names of the candidate's own (`cast = tl.cast`, `from triton.language
import load`), and as methods of a block (`x.exp()`), in Triton's interpreter.

The interpreter replaces the members of `triton.language` while a kernel runs.  A name that was
bound before still refers to the original function, which needs a compiler.  Such names in a
kernel's module are bound to the replacements while the kernel runs, and so are functions of a copy
of libdevice's module that the candidate has loaded (xformers does).  Of the methods it replaces
those that Triton marks as built in; those of `triton.language.math` have no such mark.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import triton.language as tl
from triton.language.extra import libdevice as of_any_target
from triton.language.extra.cuda import libdevice as of_cuda
from triton.runtime import interpreter


def install() -> None:
    """Make the interpreter replace these names and methods as well."""
    _mark_methods()
    original = interpreter._patch_lang

    def patched(function: Callable[..., Any]) -> Any:
        modules = (tl, tl.core, tl.math)
        places = {
            id(member): (module, name)
            for module in reversed(modules)
            for name, member in vars(module).items()
            if callable(member)
        }
        known = function.__globals__
        names = {name: value for name, value in known.items() if id(value) in places}
        copies = {name: value for name, value in known.items() if _is_copied(value)}
        scope = original(function)
        for name, value in names.items():
            module, member = places[id(value)]
            known[name] = getattr(module, member)
        for name, value in copies.items():
            known[name] = getattr(of_cuda, value.__name__)
        scope.restore = _in_turn(scope.restore, lambda: known.update(names | copies))
        return scope

    interpreter._patch_lang = patched


def _mark_methods() -> None:
    """Mark a block's methods that need a compiler as built in."""
    for _, method in inspect.getmembers(tl.tensor, inspect.isfunction):
        if "_semantic" in inspect.signature(method).parameters:
            setattr(method, tl.core.TRITON_BUILTIN, True)


_LIBDEVICE = {of_any_target.__name__, of_cuda.__name__}


def _is_copied(value: Any) -> bool:
    """Test whether a value is a function of libdevice that is not the interpreter's."""
    return (
        isinstance(value, FunctionType)
        and value.__module__ in _LIBDEVICE
        and hasattr(of_cuda, value.__name__)
    )


def _in_turn(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        first()
        second()

    return run
