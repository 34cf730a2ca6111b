"""EXPORT: facts of a syntax tree that need no scope: names it binds, attributes it
defines, forms without effect.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_KEPT_ATTRIBUTES = frozenset(
    {"forward", "backward", "weight", "bias", "training", "data", "grad", "shape", "dtype"}
)
"""Attributes of tensors and modules: kept by name even where a class of the module
defines one that is called so.
"""


def own_attributes(tree: ast.Module) -> frozenset[str]:
    """Attributes that the module's classes define, and which a rewrite may thus rename."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    found: set[str] = set()
    for node in classes:
        found |= stored_on_self(node)
        found |= {
            each.name
            for each in node.body
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        found |= stored(
            [each for each in node.body if isinstance(each, ast.Assign | ast.AnnAssign)]
        )
    return frozenset(name for name in found - _KEPT_ATTRIBUTES if not is_dunder(name))


def stored_on_self(node: ast.ClassDef) -> set[str]:
    """Attributes of `self` that the methods of a class assign."""
    found: set[str] = set()
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.args.args:
            own = method.args.args[0].arg
            found |= {
                each.attr
                for each in ast.walk(method)
                if isinstance(each, ast.Attribute)
                and isinstance(each.ctx, ast.Store)
                and isinstance(each.value, ast.Name)
                and each.value.id == own
            }
    return found


def stored(body: Iterable[ast.AST]) -> set[str]:
    """Names that statements bind; attributes of `self` with a dot before them."""
    found: set[str] = set()
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(f".{node.attr}")
    return found


def is_main(node: ast.stmt) -> bool:
    """`if __name__ == "__main__"`: no part of the module's work."""
    if not isinstance(node, ast.If):
        return False
    return any(isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(node.test))


def is_dunder(name: str) -> bool:
    """True for a name like `__len__`."""
    return name.startswith("__") and name.endswith("__")


def is_base_constructor(node: ast.expr) -> bool:
    """`super().__init__()`, `super(Name, self).__init__()` or `nn.Module.__init__(self)`."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"),
            args=args,
        ):
            return not args
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="Module"), attr="__init__")):
            return True
    return False


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Name → dotted path."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{'.' * node.level}{node.module or ''}.{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name
        else:
            top = alias.name.partition(".")[0]
            yield top, top
