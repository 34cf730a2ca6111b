"""Ways by which a source reaches into the process that it runs in, parsed and never run.

Whose kernels did the work is told by the candidate's own process: by torch's profiler, or by a dispatch mode.  A source
that names frames, live objects, loaded modules or dispatch modes, that puts functions of its own into the place of a
library's, or that makes code or names from text, could tell anything.  None of 170 published honest kernels does."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from app.domain.source_ablation import MAX_BYTES

MODULES = frozenset(
    {
        "gc",
        "inspect",
        "workers",
        "builtins",
        "importlib",
        "multiprocessing",
        "subprocess",
        "torch.utils._python_dispatch",
    }
)
"""Modules with a view of other code, or of other processes, whose work is in no account, by name or beginning."""

HARMLESS = frozenset(
    {
        "inspect.signature",
        "inspect.Parameter",
        "multiprocessing.cpu_count",
        "gc.collect",
        "importlib.util",
        "importlib.metadata",
    }
)
"""Their names without such a view."""

ATTRIBUTES = frozenset(
    {
        "_current_frames",
        "_disable_current_modes",
        "_DisablePythonDispatcher",
        "_DisableTorchDispatch",
        "_ExcludeDispatchKeyGuard",
        "_getframe",
        "_pop_mode_temporarily",
        "_profiler",
        "_profiler_enabled",
        "_is_profiler_enabled",
        "_len_torch_dispatch_stack",
        "_get_current_dispatch_mode",
        "f_back",
        "f_builtins",
        "f_globals",
        "f_locals",
        "fork",
        "forkpty",
        "from_address",
        "gi_frame",
        "memmove",
        "meta_path",
        "modules",
        "posix_spawn",
        "profiler",
        "pythonapi",
        "setprofile",
        "settrace",
        "string_at",
        "tb_frame",
        "__builtins__",
        "__closure__",
        "__code__",
        "__globals__",
        "__subclasses__",
    }
)
"""Attributes through which other code, or memory and processes past its account, are reached; `modules` of `sys`
alone."""

SWITCHES = frozenset({"backends", "config", "knobs"})
"""Parts of modules that are there to be assigned to."""

TOO_LONG = "a text too long or too deep to be read"

RUNNING_TEXT = frozenset({"__import__", "eval", "exec"})


def ways(source: bytes) -> tuple[str, ...]:
    """Names of the ways found, each once; none in one that is no Python of this version."""
    if len(source) > MAX_BYTES:
        return (TOO_LONG,)
    try:
        tree = ast.parse(source)
        imported = _imported(tree)
        return tuple(dict.fromkeys(way for node in ast.walk(tree) for way in _ways(node, imported)))
    except (RecursionError, MemoryError):
        return (TOO_LONG,)
    except (SyntaxError, ValueError):
        return ()


def _imported(tree: ast.Module) -> frozenset[str]:
    """Names by which modules and their members are known in the source."""
    return frozenset(
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    )


def _ways(node: ast.AST, imported: frozenset[str]) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names if _is_beyond(alias.name) and alias.name not in ("gc", "inspect"))
        case ast.ImportFrom(module=str(module), names=names):
            found = (f"{module}.{alias.name}" for alias in names)
            yield from (name for name in found if _is_beyond(name) or name.split(".")[-1] in ATTRIBUTES - {"modules"})
        case ast.Attribute(attr=name):
            dotted = _dotted(node)
            if dotted.split(".")[0] in ("gc", "inspect") and dotted not in HARMLESS:
                yield dotted
            elif name in ATTRIBUTES and (name != "modules" or dotted == "sys.modules"):
                yield dotted or name
        case ast.Call(func=ast.Name(id=name), args=[_, *_]) if name in RUNNING_TEXT:
            yield f"{name}()"
        case ast.Call(func=ast.Name(id="setattr"), args=[ast.expr() as target, *_]) if _root(target) in imported:
            yield f"setattr({ast.unparse(target)})"
        case ast.Assign(targets=targets):
            yield from (f"{ast.unparse(each)} =" for each in targets if _is_replaced(each, imported))


def _is_beyond(name: str) -> bool:
    return name not in HARMLESS and any(name == module or name.startswith(f"{module}.") for module in MODULES)


def _is_replaced(target: ast.expr, imported: frozenset[str]) -> bool:
    """Test whether a member of an imported module is assigned to, other than a switch."""
    return (
        isinstance(target, ast.Attribute)
        and _root(target) in imported
        and not SWITCHES & set(_dotted(target).split("."))
    )


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _dotted(node: ast.expr) -> str:
    """`a.b.c` of attributes of a name, or an empty text."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name) if _dotted(value):
            return f"{_dotted(value)}.{name}"
    return ""
