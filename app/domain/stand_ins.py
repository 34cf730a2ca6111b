"""Modules of a source's own in place of a library that is missing, as published kernels make them:

    try:
        import triton
    except ImportError:
        triton = types.ModuleType("triton")
        triton.jit = lambda function: function

Members of such a module are no members of a library: nothing is replaced.
"""

from __future__ import annotations

import ast

TYPES = "types"
"""Module with the class of modules."""


def makes_modules(tree: ast.Module) -> bool:
    """Test whether `types` is Python's module of this name wherever the source names it."""
    nodes = list(ast.walk(tree))
    imports = [alias for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    meant = {id(alias) for alias in imports if alias.name == TYPES and alias.asname is None}
    return bool(meant) and not any(_may_be_another(node) for node in nodes if id(node) not in meant)


def _may_be_another(node: ast.AST) -> bool:
    match node:
        case ast.alias(name=name, asname=other):
            return (other or name) in (TYPES, "*")
        case (
            ast.Name(id=name, ctx=ast.Store() | ast.Del())
            | ast.Constant(value=name)
            | ast.arg(arg=name)
            | ast.FunctionDef(name=name)
            | ast.AsyncFunctionDef(name=name)
            | ast.ClassDef(name=name)
            | ast.ExceptHandler(name=name)
        ):
            return name == TYPES
        case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return name == TYPES
    return False


def without_members(statement: ast.stmt) -> ast.stmt:
    """The statement with the values alone of members that handlers of its exceptions give to
    modules which they have made.  Only where makes_modules holds for the source.
    """
    if not isinstance(statement, ast.Try):
        return statement
    handlers = [
        ast.ExceptHandler(each.type, each.name, _values_of_members(each.body))
        for each in statement.handlers
    ]
    return ast.Try(statement.body, handlers, statement.orelse, statement.finalbody)


def _values_of_members(body: list[ast.stmt]) -> list[ast.stmt]:
    made: set[str] = set()
    kept: list[ast.stmt] = []
    for statement in body:
        match statement:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id=name))],
                value=(ast.Lambda() | ast.Name() | ast.Constant()) as value,
            ) if name in made:
                kept.append(ast.Expr(value))
                continue
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id="types"), attr="ModuleType"),
                    args=[ast.Constant()],
                    keywords=[],
                ),
            ):
                made.add(name)
            case _:  # any other statement, or a call in one, might bind the names anew
                made.clear()
        kept.append(statement)
    return kept
