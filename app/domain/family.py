"""EXPORT: which problems are the same work: keys of a reference that survive renaming and other shapes.

    exact    the syntax tree of the module: blanks and comments aside
    task     the same with numbers masked: a re-shaped copy of a problem has the same task
    family   only the reference's class (of a problem by cases, `get_cases`), numbers masked and names that it binds
             renamed: six matrix products of different shapes are one family

String constants are kept: architectures that differ in the name of a model are different work.  Splits and
decontamination go by family, because exact hashes miss every re-shaped copy."""

from __future__ import annotations

import ast
import builtins
import hashlib
import warnings
from dataclasses import dataclass

VERSION = 2
"""Changes with everything here that changes a key."""


@dataclass(frozen=True, kw_only=True)
class Keys:
    """Hexadecimal keys of one reference."""

    exact: str
    task: str
    family: str


def keys(reference: bytes, entry_point: str) -> Keys:
    """The keys of a reference.  What does not parse, or lacks the class, has the hash of its bytes for the keys that
    cannot be had: it is then like nothing but itself."""
    own = _digest(reference.hex())
    try:
        with warnings.catch_warnings(action="ignore"):  # an odd escape in a docstring does not matter here
            tree = _Undocumented().visit(ast.parse(reference))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Keys(exact=own, task=own, family=own)
    exact = _digest(ast.dump(tree))
    tree = _Masked().visit(tree)
    task = _digest(ast.dump(tree))  # before its class is renamed in place
    named = {node.name: node for node in reversed(tree.body) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    model = named.get(entry_point) or named.get("get_cases")
    family = own if model is None else _digest(ast.dump(_Renamed(model).visit(model)))
    return Keys(exact=exact, task=task, family=family)


class _Undocumented(ast.NodeTransformer):
    """Drops statements that are a string: docstrings."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node


class _Masked(ast.NodeTransformer):
    """Every number is the same number."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, int | float | complex) and not isinstance(node.value, bool):
            return ast.Constant(value=0)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        inner = self.generic_visit(node)
        assert isinstance(inner, ast.UnaryOp)
        is_number = isinstance(inner.operand, ast.Constant) and inner.operand.value == 0
        return inner.operand if is_number and isinstance(inner.op, ast.USub | ast.UAdd) else inner


class _Renamed(ast.NodeTransformer):
    """Names that the class binds, and its own attributes, become their order of appearance."""

    def __init__(self, model: ast.ClassDef | ast.FunctionDef) -> None:
        stored = {
            node.id for node in ast.walk(model) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }
        taken = {node.arg for node in ast.walk(model) if isinstance(node, ast.arg)}
        self._bound = (stored | taken) - set(dir(builtins))
        self._own = {node.attr for node in ast.walk(model) if _is_own(node) and isinstance(node.ctx, ast.Store)}  # type: ignore[attr-defined]
        self._order: dict[str, str] = {}

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = "$"
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._bound:
            node.id = self._name(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg, node.annotation = self._name(node.arg), None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if _is_own(node) and node.attr in self._own:
            node.attr = self._name(f".{node.attr}")
        return self.generic_visit(node)

    def _name(self, name: str) -> str:
        return self._order.setdefault(name, f"${len(self._order)}")


def _is_own(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
