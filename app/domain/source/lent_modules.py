"""Ways that a source takes from what others hold: modules that are members of libraries
(`torch.inspect`), the builtins by a name of their own, and functions that run text under others.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

MODULES = frozenset(
    {
        "builtins",
        "cloudpickle",
        "gc",
        "importlib",
        "inspect",
        "marshal",
        "multiprocessing",
        "pickle",
        "runpy",
        "subprocess",
    }
)
"""Modules with a view of other code that libraries have among their members; without those that
are ordinary words (`torch.trace`).
"""

OWN = frozenset({"__builtins__", "__loader__", "__spec__"})
"""Names in each module that lead to the builtins and to loaders."""

RUNNING_TEXT = frozenset({"__import__", "eval", "exec"})
"""Functions that run text, whose calls by these names are found elsewhere."""


def ways(tree: ast.AST, imported: Collection[str]) -> Iterator[str]:
    """Names of the ways.  `imported`: names by which the source knows modules."""
    nodes = list(ast.walk(tree))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in OWN or (
                name in RUNNING_TEXT and id(node) not in called
            ):
                yield name
            case ast.Attribute(attr=name) if name in MODULES and _first(node) in imported:
                yield ast.unparse(node)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{each.name}" for each in names if each.name in MODULES)


def _first(node: ast.expr) -> str:
    """The name that a chain of attributes begins with; empty where it begins with none."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
