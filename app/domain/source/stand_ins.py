"""Objects of a source's own in place of a library that is missing, as published kernels make them:

    try:
        import triton
    except ImportError:
        triton = types.ModuleType("triton")     # or MagicMock()
        triton.jit = lambda function: function

Members of such an object are no members of a library: nothing is replaced.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

TYPES = "types"
"""Module with the class of modules."""

MOCKED = "unittest.mock"
MOCKS = frozenset({"MagicMock", "Mock"})
"""Module and names of classes whose objects have every member; other members of the module
replace those of a library."""

CONFIGURING = frozenset(
    {
        "__class__",
        "__getattribute__",
        "__init__",
        "__new__",
        "_get_child_mock",
        "attach_mock",
        "attrgetter",
        "configure_mock",
        "methodcaller",
        "mock_add_spec",
    }
)
"""Members through which a mock sets members of other objects, or by which these are reached:
`mock.configure_mock(a=torch, **{"a.add": f})`."""

CLASS_OF = frozenset({"type", "vars"})
"""Functions that give the class of a mock."""


def makers(tree: ast.Module) -> frozenset[str]:
    """Members of `types` and MOCKS that are Python's own wherever the source names them."""
    nodes = list(ast.walk(tree))
    meant: dict[str, set[int]] = {}
    for node in nodes:
        for alias in _made_of(node):
            meant.setdefault(alias.name, set()).add(id(alias))
    return frozenset(
        name
        for name, aliases in meant.items()
        if not any(_may_be_another(node, name) for node in nodes if id(node) not in aliases)
    )


def _made_of(node: ast.AST) -> list[ast.alias]:
    """Names under which a statement imports makers."""
    match node:
        case ast.Import(names=names):
            known: Collection[str] = (TYPES,)
        case ast.ImportFrom(module="unittest.mock", names=names):
            known = MOCKS
        case _:
            return []
    return [alias for alias in names if alias.name in known and alias.asname is None]


def _may_be_another(node: ast.AST, maker: str) -> bool:
    match node:
        case ast.alias(name=name, asname=other):
            return (other or name) in (maker, "*")
        case (
            ast.Name(id=name, ctx=ast.Store() | ast.Del())
            | ast.Constant(value=name)
            | ast.arg(arg=name)
            | ast.FunctionDef(name=name)
            | ast.AsyncFunctionDef(name=name)
            | ast.ClassDef(name=name)
            | ast.ExceptHandler(name=name)
        ):
            return name == maker
        case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return name == maker
    return False


def ways(tree: ast.Module) -> Iterator[str]:
    """In a source with mocks: uses of their class other than a call without arguments, and the
    means by which they would set members of other objects.
    """
    nodes = list(ast.walk(tree))
    names = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == MOCKED
        for alias in node.names
        if alias.name in MOCKS
    }
    if not names:
        return
    plain = {id(node.func) for node in nodes if isinstance(node, ast.Call) and _is_plain(node)}
    for node in nodes:
        match node:
            case ast.Name(id=name) if name in names and id(node) not in plain:
                yield f"{MOCKED}.{name}"
            case ast.Name(id=name) if name in CLASS_OF | CONFIGURING:
                yield name
            case ast.Name(id="getattr" as name) if id(node) not in plain:
                yield name
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
                continue
            case (
                ast.Attribute(attr=name) | ast.Constant(value=str(name)) | ast.alias(name=name)
            ) if name in CONFIGURING:
                yield name


def _is_plain(call: ast.Call) -> bool:
    """Test for a call without arguments, or for `getattr` with a name that is written out."""
    match call:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(), *_]):
            return True
    return not call.args and not call.keywords


def without_members(statement: ast.stmt, makers: Collection[str]) -> ast.stmt:
    """The statement with the values alone of members that its branches, or handlers of its
    exceptions, give to objects which they have made.
    """
    match statement:
        case ast.If():
            return ast.If(
                statement.test,
                _values_of_members(statement.body, makers),
                _values_of_members(statement.orelse, makers),
            )
        case ast.Try():
            handlers = [
                ast.ExceptHandler(each.type, each.name, _values_of_members(each.body, makers))
                for each in statement.handlers
            ]
            return ast.Try(statement.body, handlers, statement.orelse, statement.finalbody)
    return statement


def _values_of_members(body: list[ast.stmt], makers: Collection[str]) -> list[ast.stmt]:
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
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if _makes(
                call, makers
            ):
                made.add(name)
            case _:  # any other statement, or a call in one, might bind the names anew
                made.clear()
        kept.append(statement)
    return kept


def _makes(call: ast.Call, makers: Collection[str]) -> bool:
    match call:
        case ast.Call(func=ast.Name(id=maker), args=[], keywords=[]):
            return maker in makers
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="types"), attr="ModuleType"),
            args=[ast.Constant()],
            keywords=[],
        ):
            return TYPES in makers
    return False
