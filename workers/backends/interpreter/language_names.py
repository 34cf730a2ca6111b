"""Triton's functions under names of the candidate's own (`cast = tl.cast`, `from triton.language
import load`) in Triton's interpreter.

The interpreter replaces the members of `triton.language` while a kernel runs.  A name that was
bound before still refers to the original function, which needs a compiler.  Such names in a
kernel's module are bound to the replacements while the kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton.language as tl
from triton.runtime import interpreter


def install() -> None:
    """Make the interpreter replace these names as well."""
    original = interpreter._patch_lang

    def patched(function: Callable[..., Any]) -> Any:
        modules = (tl, tl.core, tl.math)
        places = {
            id(member): (module, name)
            for module in reversed(modules)
            for name, member in vars(module).items()
            if callable(member)
        }
        names = {name: value for name, value in function.__globals__.items() if id(value) in places}
        scope = original(function)
        for name, value in names.items():
            module, member = places[id(value)]
            function.__globals__[name] = getattr(module, member)
        scope.restore = _in_turn(scope.restore, lambda: function.__globals__.update(names))
        return scope

    interpreter._patch_lang = patched


def _in_turn(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        first()
        second()

    return run
