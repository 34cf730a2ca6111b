"""Ablation by source: the same candidate with Triton kernels that do nothing, for a
process that is not informed.

A process that is asked not to run its kernels can lie about it; a process that was given a source
without kernels has none to run.  Not stopped: a candidate that reads its own source back.

`keeps_to_itself` says for which sources that is hardly worth a process: they import and name
nothing through which the recorder of launches could be reached.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from app.domain.source import syntax_tree

MAX_BYTES = 1 << 20
"""Longest source that is parsed: the parser takes two hundred times its bytes."""

_HEAD_BYTES = 64 << 10
"""Python looks for the encoding in the first two lines; the rest of a longer one is not read."""

_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""Errors of the parser on text that is no Python, or too deep."""

MOST_BITS = 14_000
"""Bits of a whole number that Python writes in decimal digits: 4,300 of them, by default."""

BY_SOURCE = "by source"
"""Reason of an Ablation that was decided so."""


def without_kernels(source: bytes) -> bytes | None:
    """The source with the body of every function under a decorator named `jit`, or
    handed to one, replaced by `pass`.

    None where there is no such function, or where the text does not parse (then it
    did not load either).
    """
    if len(source) > MAX_BYTES:
        return None
    try:
        emptied = _Emptied(*_jits(tree := syntax_tree.parse(source)))
        tree = ast.fix_missing_locations(emptied.visit(tree))
        return ast.unparse(tree).encode() if emptied.kernels else None
    except _UNREADABLE:
        return None


def kernel_names(source: bytes) -> frozenset[str]:
    """Names of the functions that `without_kernels` empties."""
    if len(source) > MAX_BYTES:
        return frozenset()
    try:
        emptied = _Emptied(*_jits(tree := syntax_tree.parse(source)))
        emptied.visit(tree)
    except _UNREADABLE:
        return frozenset()
    return frozenset(emptied.kernels)


def reads_as_it_runs(source: bytes) -> bool:
    """True if the text shown to a reader, in UTF-8, is the program that Python runs.

    A declared encoding (PEP 263) can turn a comment into code.  Where one is declared, both must
    parse to the same tree; a source that Python itself refuses is left to Python.  Trees that
    cannot be compared (too deep, or a number too long to be written) are not the same.
    """
    head = re.split(rb"\r\n|\r|\n", source[:_HEAD_BYTES], maxsplit=2)[:2]
    if not any(b"coding" in line for line in head):
        return True
    try:
        runs = syntax_tree.parse(source)
    except (SyntaxError, ValueError):
        return True
    except (RecursionError, MemoryError):
        return False
    try:
        return ast.dump(syntax_tree.parse(source.decode("utf-8-sig"))) == ast.dump(runs)
    except _UNREADABLE:
        return False


MODULES = frozenset({"__future__", "functools", "math", "torch", "triton", "typing"})
"""Modules that kernels need."""

BUILTINS = frozenset({
    "breakpoint", "compile", "delattr", "dir", "eval", "exec", "getattr", "globals", "locals",
    "object", "open",
    "setattr", "type", "vars",
})  # fmt: skip
"""Names that lead to code outside the source."""

MODULES_BEYOND = frozenset({
    "ao", "builtins", "classes", "compile", "compiler", "cpp_extension", "ctypes", "distributed",
    "export",
    "ForwardRef", "fx", "gc", "get_type_hints", "hub", "importlib", "inspect", "library",
    "load_inline", "load_library",
    "multiprocessing", "onnx", "ops", "os", "overrides", "package", "profiler", "runtime",
    "serialization", "storage",
    "sys", "testing", "threading", "types", "utils",
})  # fmt: skip
"""Attributes of torch, triton and typing that lead to other modules, or make code from text."""


def keeps_to_itself(source: bytes) -> bool:
    """True if a source imports only modules that kernels need, and touches no name
    that leads beyond it.

    A rule of thumb that decides how much a check may cost; it accuses no candidate.
    """
    if len(source) > MAX_BYTES:
        return False
    try:
        return all(map(_is_plain, ast.walk(syntax_tree.parse(source))))
    except _UNREADABLE:
        return False


def _is_plain(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return all(_is_plain_module(alias.name) for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            return (
                level == 0
                and _is_plain_module(module or "")
                and not {each.name for each in names} & MODULES_BEYOND
            )
        case ast.Name(id=name):
            return name not in BUILTINS and (not name.startswith("__") or name == "__name__")
        case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
            return not attribute.startswith("__")
        case ast.Attribute(attr=attribute, ctx=context):
            private = attribute.startswith("_") and attribute != "__init__"
            return isinstance(context, ast.Load) and not private and attribute not in MODULES_BEYOND
        case ast.MatchClass():
            return False
    return True


def _is_plain_module(name: str) -> bool:
    root, *below = name.split(".")
    return (
        root in MODULES
        and not set(below) & MODULES_BEYOND
        and not any(each.startswith("_") for each in below)
    )


def _jits(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Names that mean `jit`, and those of functions that are handed to it: `add =
    triton.jit(add)`.
    """
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_jit(value):
                names.add(name)
            case ast.ImportFrom(names=found):
                names |= {
                    each.asname for each in found if each.asname and "jit" in each.name.lower()
                }
    handed = {
        argument.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _is_jit(node.func, names)
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(argument, ast.Name)
    }
    return names, handed


class _Emptied(ast.NodeTransformer):
    """Empties kernels, and counts them."""

    def __init__(self, jits: set[str], handed: set[str]) -> None:
        self.kernels: set[str] = set()
        self._jits = jits
        self._handed = handed

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """One function; those inside others, too."""
        if node.name in self._handed or any(
            _is_jit(decorator, self._jits) for decorator in node.decorator_list
        ):
            self.kernels.add(node.name)
            node.body = [ast.Pass()]
            return node
        self.generic_visit(node)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """A whole number too long for `ast.unparse`, which writes decimal digits, as a call
        that gives it; everything else as it is.
        """
        if isinstance(node.value, int) and node.value.bit_length() > MOST_BITS:
            return syntax_tree.parse_expression(f"int({hex(node.value)!r}, 16)")
        return node


def _is_jit(decorator: ast.expr, names: Collection[str] = ()) -> bool:
    """`@triton.jit`, `@jit`, `@triton.jit(do_not_specialize=…)`, and any other with the word in it,
    as a name or as text, or one of `names`: `@[triton.jit][0]`.
    """
    return any("jit" in word.lower() or word in names for word in map(_word, ast.walk(decorator)))


def _word(node: ast.AST) -> str:
    match node:
        case ast.Attribute(attr=word) | ast.Name(id=word) | ast.Constant(value=str(word)):
            return word
    return ""
