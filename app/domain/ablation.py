"""Ablation by source: the same candidate, whose Triton kernels do nothing, for a process that is told nothing.

Whoever is asked not to run its kernels can lie about it; a process that was given a source without kernels has none to
run.  What this does not stop: a candidate that reads its own source back."""

from __future__ import annotations

import ast

MAX_BYTES = 1 << 20


def without_kernels(source: bytes) -> bytes | None:
    """The source with the body of every function under a decorator named `jit` replaced by `pass`.

    None where there is no such function, or where the text does not parse (then it did not load either)."""
    if len(source) > MAX_BYTES:
        return None
    try:
        tree = ast.parse(source.decode("utf-8"))
        emptied = _Emptied()
        tree = ast.fix_missing_locations(emptied.visit(tree))
        return ast.unparse(tree).encode() if emptied.kernels else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Emptied(ast.NodeTransformer):
    """Empties kernels, and counts them."""

    def __init__(self) -> None:
        self.kernels = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """One function; those inside others, too."""
        if any(_is_jit(decorator) for decorator in node.decorator_list):
            self.kernels += 1
            node.body = [ast.Pass()]
            return node
        self.generic_visit(node)
        return node


def _is_jit(decorator: ast.expr) -> bool:
    """`@triton.jit`, `@jit`, `@triton.jit(do_not_specialize=…)`, and aliases that keep the word: `@tjit`."""
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""
    return "jit" in name.lower()
