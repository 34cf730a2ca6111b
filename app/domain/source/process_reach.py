"""Ways by which a source reaches into the process that it runs in, parsed and never run.

Whose kernels did the work is told by the candidate's own process: by torch's profiler, or by a
dispatch mode.  A source that names frames, live objects, loaded modules or dispatch modes, that
puts functions of its own into the place of a library's, or that makes code or names from text,
could tell anything.  None of 170 published honest kernels does.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from app.domain.source import evaluated_texts, imports_by_name, lent_modules, stand_ins, syntax_tree
from app.domain.source.process_reach_names import (
    ABSENT,
    ATTRIBUTES,
    BY_USE,
    DOTTED,
    GENERIC,
    HANDLED,
    HARMLESS,
    MEMBERS,
    MODULES,
    STARTED,
    SWITCHES,
    TEXTS,
    WATCHED,
    WRITING,
)
from app.domain.source.source_ablation import MAX_BYTES

TOO_LONG = "a text too long or too deep to be read"

LISTING = ("dir", "hasattr")
"""Functions that tell whether a module has a member."""

RUNNING_TEXT = lent_modules.RUNNING_TEXT | {"compile"}


def ways(source: bytes, *, native: Collection[str] = ()) -> tuple[str, ...]:
    """Names of the ways found, each once; none in one that is no Python of this version.  A source
    that Python reads and this function cannot is TOO_LONG.

    `native`: modules and members that are ways, too: NATIVE where native code has no account."""
    if len(source) > MAX_BYTES:
        return (TOO_LONG,)
    try:
        parsed = syntax_tree.parse(source)
    except (RecursionError, MemoryError):
        return (TOO_LONG,)
    except (SyntaxError, ValueError):
        return ()
    try:
        tree = _loaded(parsed)
        imported = _imported(tree)
        found = (
            way
            for node in ast.walk(tree)
            for way in (*_ways(node, imported), *_native(node, native))
        )
        whole = (
            *_handed_on(tree),
            *_under_other_names(tree),
            *imports_by_name.ways(tree, _is_beyond),
            *lent_modules.ways(tree, imported),
            *stand_ins.ways(tree),
        )
        return tuple(dict.fromkeys((*found, *whole, *_taking_places(tree), *_code_in_files(tree))))
    except (RecursionError, MemoryError, ValueError):  # ValueError: a number of 4,300 digits
        return (TOO_LONG,)


def files_in_place_of_modules(source: bytes) -> tuple[str, ...]:
    """Names of files that the source has, and may write, which Python would import
    in place of a library or Assay.
    """
    try:
        return (
            tuple(dict.fromkeys(_taking_places(_loaded(syntax_tree.parse(source)))))
            if len(source) <= MAX_BYTES
            else ()
        )
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _loaded(tree: ast.Module) -> ast.Module:
    """The module without `if __name__ == "__main__":`, which a module that is loaded does not run,
    with expressions in place of their texts, and with the values alone of members that it gives to
    older releases of a library, or to objects of its own in place of a library that is missing;
    each only where the names in these statements have no other meaning.
    """
    nodes = list(ast.walk(tree))
    bound = frozenset(chain.from_iterable(map(_bound, nodes)))
    if "eval" not in bound and any(evaluated_texts.text_of(node) is not None for node in nodes):
        tree = evaluated_texts.written_out(tree)
        bound = frozenset(chain.from_iterable(map(_bound, ast.walk(tree))))
    body = [each for statement in tree.body for each in _run_when_loaded(statement, bound)]
    if makers := stand_ins.makers(tree):
        body = [stand_ins.without_members(each, makers) for each in body]
    return ast.Module(body, [])


def _bound(node: ast.AST) -> tuple[str, ...]:
    """Names that may get another meaning in a node, as far as `_run_when_loaded` asks."""
    match node:
        case (
            ast.Name(id=name, ctx=ast.Store())
            | ast.Constant(value=str(name))
            | ast.arg(arg=name)
            | ast.alias(asname=str(name))
            | ast.FunctionDef(name=name)
            | ast.AsyncFunctionDef(name=name)
            | ast.ClassDef(name=name)
        ):
            return (name,)
        case ast.alias(name="*"):
            return LISTING
        case ast.alias(name=name):
            return (name,)
    return ()


def _run_when_loaded(statement: ast.stmt, bound: Collection[str]) -> list[ast.stmt]:
    match statement:
        case ast.If(
            test=ast.Compare(
                left=ast.Name(id="__name__"),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value="__main__")],
            ),
            orelse=others,
        ) if "__name__" not in bound:
            return others
        case ast.If(
            test=test,
            body=[ast.Assign(targets=[ast.Attribute() as member], value=value)],
            orelse=[],
        ) if not set(LISTING) & set(bound) and _is_absent(member, test):
            return [ast.Expr(value)]
    return [statement]


def _is_absent(member: ast.Attribute, test: ast.expr) -> bool:
    """Test whether a condition holds only where a module lacks this public member, as older
    releases of a library do: nothing of the library is replaced then.
    """
    match test:
        case (
            ast.Compare(
                left=ast.Constant(value=name),
                ops=[ast.NotIn()],
                comparators=[ast.Call(func=ast.Name(id="dir"), args=[module], keywords=[])],
            )
            | ast.UnaryOp(
                op=ast.Not(),
                operand=ast.Call(
                    func=ast.Name(id="hasattr"), args=[module, ast.Constant(value=name)]
                ),
            )
        ):
            path = imports_by_name.dotted(module)
            is_module = path.islower() and path == imports_by_name.dotted(member.value)
            return is_module and name == member.attr and not member.attr.startswith("_")
    return False


def _taking_places(tree: ast.Module) -> Iterator[str]:
    nodes = list(ast.walk(tree)) if _may_write(tree) else []
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            folder, _, name = node.value.rpartition("/")
            stem, dot, ending = name.partition(".")
            module = folder.rpartition("/")[2] if stem == "__init__" else stem
            if dot and ending in ("py", "pth", "so") and module in STARTED:
                yield node.value


def _may_write(tree: ast.Module) -> bool:
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return any(getattr(func, "attr", getattr(func, "id", "")) in WRITING for func in called)


def _code_in_files(tree: ast.Module) -> Iterator[str]:
    """`sys.path`, beside a file that may be written: it is code that no reader of
    the source sees.
    """
    if _may_write(tree):
        yield from (
            "sys.path"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and imports_by_name.dotted(node) == "sys.path"
        )


def _imported(tree: ast.Module) -> frozenset[str]:
    """Names by which modules and their members are known in the source: those of
    imports, and other names for them.
    """
    names = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if alias.name not in ABSENT
    } | set(imports_by_name.bound(tree))
    others = [each for node in ast.walk(tree) for each in _renamed(node) if not _is_switch(each[1])]
    while more := {
        name for name, value in others if name not in names and _root(value, calls=False) in names
    }:
        names |= more
    return frozenset(names)


def _renamed(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """`name = value`, and `for name in (value, …)`."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((each.id, value) for each in targets if isinstance(each, ast.Name))
        case (
            ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            | ast.NamedExpr(target=ast.Name(id=name), value=value)
        ):
            yield name, value
        case ast.For(target=ast.Name(id=name), iter=ast.Tuple(elts=values) | ast.List(elts=values)):
            yield from ((name, value) for value in values)


def _handed_on(tree: ast.Module) -> Iterator[str]:
    """Modules that are judged by their members, where a source mentions them without one."""
    nodes = list(ast.walk(tree))
    imports = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    within = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in HANDLED & imports and id(node) not in within:
            yield node.id


def _under_other_names(tree: ast.Module) -> Iterator[str]:
    """Members in DOTTED, where their module has another name in the source, or is none of it."""
    origins = {
        alias.asname or alias.name: f"{module}{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in ["" if isinstance(node, ast.Import) else f"{node.module}."]
        for alias in node.names
    }
    yield from filter(_is_dotted_way, origins.values())
    renamed = [pair for node in ast.walk(tree) for pair in _renamed(node)]
    for _ in range(len(renamed)):
        new = {name: whole for name, value in renamed if (whole := _whole(value, origins))}
        if new.items() <= origins.items():
            break
        origins = new | origins
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_dotted_way(whole := _whole(node, origins)):
            yield whole


def _whole(node: ast.expr, origins: Mapping[str, str]) -> str:
    """`a.b.c` with the name that `a` stands for; empty where it stands for no module."""
    first, dot, rest = imports_by_name.dotted(node).partition(".")
    return f"{origins[first]}{dot}{rest}" if first in origins else ""


def _ways(node: ast.AST, imported: frozenset[str]) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (
                alias.name
                for alias in names
                if _is_beyond(alias.name) and (alias.asname or alias.name not in BY_USE)
            )
        case ast.ImportFrom(module=str(module), names=names):
            found = (f"{module}.{alias.name}" for alias in names)
            yield from (
                name
                for name in found
                if (_is_beyond(name) and name not in imports_by_name.LOADING)
                or name.split(".")[-1] in ATTRIBUTES
            )
        case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()) if _is_replaced(node, imported):
            yield f"{ast.unparse(node)} ="
        case ast.Attribute(attr=name) if _is_way(node, imported):
            yield imports_by_name.dotted(node) or name
        case ast.FunctionDef(name=text) | ast.Name(id=text) if text in TEXTS:
            yield text
        case ast.Constant(value=str(text)) if (ATTRIBUTES - GENERIC) & set(text.split(".")):
            yield text
        case ast.Call(func=ast.Name(id="getattr"), args=[target, name, *_]) if _is_looked_up(
            target, name, imported
        ):
            yield ast.unparse(node)
        case ast.Call(func=ast.Name(id=name), args=[_, *more]) if name in RUNNING_TEXT and (
            name != "compile" or more
        ):
            yield f"{name}()"
        case ast.Call(
            func=ast.Name(id="setattr" | "delattr" | "vars" | "super" as name), args=[target, *_]
        ):
            if _root(target, calls=False) in imported:
                yield f"{name}({ast.unparse(target)})"


def _is_way(node: ast.Attribute, imported: frozenset[str]) -> bool:
    dotted = imports_by_name.dotted(node)
    if dotted.split(".")[0] in HANDLED:
        return dotted not in HARMLESS
    if node.attr in MEMBERS:
        return _root(node, calls=False) in imported
    return _is_dotted_way(dotted) or node.attr in ATTRIBUTES


def _is_dotted_way(dotted: str) -> bool:
    """Test for a member in DOTTED, of its module or of a library that holds the module."""
    return any(dotted == name or dotted.endswith(f".{name}") for name in DOTTED)


def _is_looked_up(target: ast.expr, name: ast.expr, imported: frozenset[str]) -> bool:
    """Test whether a member of a module is looked up by a name that is not written out; but of
    torch's and Triton's own names, as candidates do for types.
    """
    root = _root(target)
    return (
        root in imported
        and not isinstance(name, ast.Constant)
        and (root in WATCHED or "_C" in imports_by_name.dotted(target))
    )


def _native(node: ast.AST, ways: Collection[str]) -> Iterator[str]:
    """Ways to native code."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names if set(alias.name.split(".")) & set(ways))
        case ast.ImportFrom(module=str(module), names=names):
            found = (f"{module}.{alias.name}" for alias in names)
            yield from (name for name in found if set(name.split(".")) & set(ways))
        case ast.Attribute(attr=name) if name in ways:
            yield imports_by_name.dotted(node) or name


def _is_beyond(name: str) -> bool:
    return name not in HARMLESS and any(
        name == module or name.startswith(f"{module}.") for module in MODULES
    )


def _is_replaced(target: ast.Attribute, imported: frozenset[str]) -> bool:
    """Test whether a member of an imported module is assigned to, other than a switch."""
    return _root(target) in imported and not _is_switch(target)


def _is_switch(node: ast.expr) -> bool:
    return bool(SWITCHES & set(imports_by_name.dotted(node).split(".")))


def _root(node: ast.expr, *, calls: bool = True) -> str:
    """The name that an expression begins with; of a call's result only with `calls`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(node, ast.Call) and not calls:
            return ""
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
