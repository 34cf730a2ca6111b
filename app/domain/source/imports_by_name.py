"""Modules that a source imports by their names: `importlib.import_module("torch")`.

Published kernels ask so for the version of a library, or take a function from the first of several
modules that there is.  It is harmless where the names can be read in the source and a plain
import of them is; the module is then known by the name that it is bound to.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

ROOTS = frozenset({"numpy", "torch", "triton"})
"""Packages with modules that may be imported by name."""

LOADING = frozenset({"importlib.import_module", "importlib.util.module_from_spec"})
NAMING = frozenset({"importlib.import_module", "importlib.util.find_spec"})
"""Functions that give a module, and those that are told its name."""

_NAMED = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.ExceptHandler,
    ast.MatchAs,
    ast.MatchStar,
)
"""Nodes that bind a name that is no node."""


def bound(tree: ast.AST) -> Iterator[str]:
    """Names that modules are bound to."""
    nodes = list(ast.walk(tree))
    own = _own_names(nodes)
    for node in nodes:
        if (pair := _binding(node)) and _whole(pair[1].func, own) in LOADING:
            yield pair[0]


def ways(tree: ast.AST, is_beyond: Callable[[str], bool]) -> Iterator[str]:
    """Uses of importlib that are not harmless.  `is_beyond`: a test of modules."""
    nodes = list(ast.walk(tree))
    own = _own_names(nodes)
    calls = {id(node.func): node for node in nodes if isinstance(node, ast.Call)}
    plain = {id(pair[1]) for node in nodes if (pair := _binding(node))}
    named = [call for call in calls.values() if _whole(call.func, own) in NAMING]
    readable = all(_are_harmless(_name_of(call, nodes), is_beyond) for call in named)
    for use in _uses(nodes, own):
        name, call = _whole(use, own), calls.get(id(use))
        if name.startswith("importlib.metadata.") or name == "importlib.util.find_spec":
            continue
        if name not in LOADING or call is None or id(call) not in plain or not readable:
            yield name


def dotted(node: ast.AST) -> str:
    """`a.b.c` of attributes of a name, or an empty text."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name) if dotted(value):
            return f"{dotted(value)}.{name}"
    return ""


def _binding(node: ast.AST) -> tuple[str, ast.Call] | None:
    """The name and the call of `name = call(…)`."""
    match node:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as call)
            | ast.NamedExpr(target=ast.Name(id=name), value=ast.Call() as call)
        ):
            return name, call
    return None


def _own_names(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Names that `from importlib.util import find_spec` gives to functions of importlib."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if f"{node.module}.{alias.name}" in LOADING | NAMING
    }


def _whole(node: ast.AST, own: Mapping[str, str]) -> str:
    """`importlib.b.c`, also where the first name stands for a function of importlib."""
    first, dot, rest = dotted(node).partition(".")
    return f"{own.get(first, first)}{dot}{rest}"


def _uses(nodes: Iterable[ast.AST], own: Collection[str]) -> Iterator[ast.expr]:
    """Mentions of importlib and of its functions' own names, each with all of its attributes."""
    attributes = {id(node.value): node for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.Name) and (node.id == "importlib" or node.id in own):
            whole: ast.expr = node
            while id(whole) in attributes:
                whole = attributes[id(whole)]
            yield whole


def _are_harmless(names: frozenset[str] | None, is_beyond: Callable[[str], bool]) -> bool:
    """Test whether every name is one of a library's, or none that a statement could import
    (`pytorch-triton-xpu`).
    """
    return names is not None and all(
        (name.split(".")[0] in ROOTS and not is_beyond(name))
        or not name.replace(".", "_").isidentifier()
        for name in names
    )


def _name_of(call: ast.Call, nodes: list[ast.AST]) -> frozenset[str] | None:
    if len(call.args) != 1 or call.keywords:
        return None
    return _texts(call.args[0], nodes, {})


def _texts(
    value: ast.expr, nodes: list[ast.AST], known: dict[str, frozenset[str] | None]
) -> frozenset[str] | None:
    """Every text that an expression may be; None where that cannot be read.

    `known`: the texts of the names read so far, so that each is read once, however often it is
    bound; None for a name that is being read, and thus depends on itself.
    """
    match value:
        case ast.Constant(value=str(text)):
            return frozenset({text})
        case ast.Tuple(elts=values) | ast.List(elts=values):
            return _union(_texts(each, nodes, known) for each in values)
        case ast.Name(id=name):
            if name not in known:
                known[name] = None
                found = [_bound_texts(name, node, nodes, known) for node in nodes]
                every = [each for each in found if each != frozenset()]
                is_whole = every and _stores(name, nodes) == len(every)
                known[name] = _union(every) if is_whole else None
            return known[name]
    return None


def _bound_texts(
    name: str,
    node: ast.AST,
    nodes: list[ast.AST],
    known: dict[str, frozenset[str] | None],
) -> frozenset[str] | None:
    """Texts that one statement binds a name to; empty where it binds it to none."""
    match node:
        case (
            ast.Assign(targets=[ast.Name(id=target)], value=value)
            | ast.For(target=ast.Name(id=target), iter=value)
        ) if target == name:
            return None if _mentions(name, value) else _texts(value, nodes, known)
        case ast.FunctionDef(name=function, args=ast.arguments(args=parameters), decorator_list=[]):
            places = [each.arg for each in parameters]
            if name in places:
                return _given(function, places.index(name), nodes)
    return frozenset()


def _given(function: str, place: int, nodes: list[ast.AST]) -> frozenset[str] | None:
    """Texts that every call gives for a parameter; None where the function is more than called."""
    calls = [
        node
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == function
    ]
    mentions = sum(isinstance(node, ast.Name) and node.id == function for node in nodes)
    if mentions != len(calls) or _stores(function, nodes) != 1:
        return None
    return _union(_given_text(call, place) for call in calls)


def _given_text(call: ast.Call, place: int) -> frozenset[str] | None:
    if any(isinstance(each, ast.Starred) for each in call.args):
        return None
    match call.args[place : place + 1]:
        case [ast.Constant(value=str(text))]:
            return frozenset({text})
    return None


def _stores(name: str, nodes: Iterable[ast.AST]) -> int:
    """Number of places that bind a name."""
    return sum(
        (isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.arg) and node.arg == name)
        or (isinstance(node, ast.alias) and (node.asname or node.name) == name)
        or (isinstance(node, _NAMED) and node.name == name)
        or (isinstance(node, ast.MatchMapping) and node.rest == name)
        for node in nodes
    )


def _mentions(name: str, value: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(value))


def _union(found: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    texts: set[str] = set()
    for each in found:
        if each is None:
            return None
        texts |= each
    return frozenset(texts)
