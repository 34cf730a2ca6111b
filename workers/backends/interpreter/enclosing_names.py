"""Names of an enclosing function in a kernel's code, in Triton's interpreter.

Compiled kernels see them: a factory makes a kernel for its arguments.  The interpreter executes
the rewritten text of a kernel among the names of its module alone.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from triton.runtime import interpreter


def install() -> None:
    """Make rewritten kernels see the names of the functions that enclose them."""
    rewriter: Any = interpreter.FunctionRewriter
    compiled = rewriter._compile_and_exec

    def bound(self: Any, tree: ast.Module) -> Callable[..., Any]:
        seen = _enclosing(self.fn)
        if not seen:
            return compiled(self, tree)  # type: ignore[no-any-return]
        return compiled(self, _enclosed(tree, self.fn.__name__, list(seen)))(**seen)  # type: ignore[no-any-return]

    rewriter._compile_and_exec = bound


def _enclosing(function: Callable[..., Any]) -> dict[str, Any]:
    """Values of the names that a function takes from those around it; those not bound yet are
    left out.
    """
    found = {}
    cells = getattr(function, "__closure__", None) or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def _enclosed(tree: ast.Module, name: str, arguments: list[str]) -> ast.Module:
    """A function with these arguments that returns the one that `tree` defines; both are
    called `name`.
    """
    around = ast.parse(f"def {name}({', '.join(arguments)}):\n    return {name}")
    function = around.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body[:0] = tree.body
    return around
