"""A KernelBench checkout: where its problems lie, and which level and number each
has.  Standard library only.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

from app.domain.problem import Problem
from app.domain.source import source_text, syntax_tree

SOURCE_SET = "kernelbench"

_REQUIRED = frozenset({"Model", "get_inputs"})
NAMES = " and ".join(sorted(_REQUIRED))
"""Names that a problem's file must define, as messages say them."""

_LEVEL = re.compile(r"level_?(?P<level>\d{1,4})")
_PROBLEM = re.compile(r"(?P<number>\d{1,6})_.+\.py")

_SAMPLE = re.compile(
    r"level_(?P<level>\d{1,4})_problem_(?P<number>\d{1,6})_sample_(?P<sample>\d{1,9})_kernel\.py"
)


class CheckoutError(ValueError):
    """A file or folder that is not as KernelBench has it; the message names it."""


class LacksNamesError(CheckoutError):
    """A Python file that lacks names of a problem."""

    def __init__(self, path: Path, missing: set[str]) -> None:
        """`missing`: the names that it lacks."""
        super().__init__(f"{path}: expected a problem that defines {', '.join(sorted(missing))}")
        self.lacks_all = missing == _REQUIRED
        """True if it has none of them."""


def _root(directory: Path) -> Path:
    """The folder of a checkout that holds its levels."""
    nested = directory / "KernelBench"
    return nested if nested.is_dir() else directory


def is_level(directory: Path) -> bool:
    """True if the folder is named as a level."""
    return _LEVEL.fullmatch(directory.resolve().name) is not None


def has_levels(directory: Path) -> bool:
    """True if the folder, or `KernelBench` in it, holds Python files in folders
    named after levels.
    """
    return any(is_level(path.parent) for path in _root(directory).glob("level*/*.py"))


def outside(directory: Path) -> list[Path]:
    """Python files that lie in no level, relative to the folder of the levels: a checkout has none
    there, and a folder of one's own may have problems that are not read.
    """
    root = _root(directory)
    levels = {path.parent for path in root.glob("level*/*.py") if is_level(path.parent)}
    files = sorted(set(root.rglob("*.py")) - {each for level in levels for each in level.glob("*")})
    return [path.relative_to(root) for path in files if path.name != "__init__.py"]


def problem_files(directory: Path) -> dict[tuple[int, int], Path]:
    """(level, number) → file, in that order.  `directory`: a checkout, or the folder
    that holds `level1` … `level4`.

    Raises CheckoutError for a file that is named otherwise, a number that a level
    has twice, or no problem at all.
    """
    root = _root(directory)
    found: dict[tuple[int, int], Path] = {}
    for path in sorted(root.glob("level*/*.py")):
        level, name = _LEVEL.fullmatch(path.parent.name), _PROBLEM.fullmatch(path.name)
        if level is None or path.name == "__init__.py":
            continue
        if name is None:
            raise CheckoutError(
                f"{path}: expected a problem named <number>_<name>.py, as everywhere in a folder"
                f" {path.parent.name} of KernelBench"
            )
        key = int(level["level"]), int(name["number"])
        if key in found:
            raise CheckoutError(
                f"{path}: problem {key[1]} of level {key[0]} is already in {found[key].name}"
            )
        found[key] = path
    if not found:
        raise CheckoutError(
            f"{directory}: expected KernelBench/level1 … or level1 … with problems"
            " <number>_<name>.py"
        )
    return dict(sorted(found.items()))


def sample_key(path: Path) -> tuple[int, int]:
    """(level, number) of the problem that a sample is of, by its file's name.
    Raises CheckoutError.
    """
    name = _SAMPLE.fullmatch(path.name)
    if name is None:
        raise CheckoutError(f"{path}: expected level_<L>_problem_<P>_sample_<S>_kernel.py")
    return int(name["level"]), int(name["number"])


def problem(path: Path, level: int | None) -> Problem:
    """The problem of a file.  Raises CheckoutError where it cannot be read, is no
    Python, or lacks a definition.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckoutError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        with warnings.catch_warnings(action="ignore"):  # an odd escape in a docstring is no error
            tree = syntax_tree.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CheckoutError(f"{path}: expected Python source: {error}") from error
    missing = _REQUIRED - set(_bound(tree.body))
    if missing:
        raise LacksNamesError(path, set(missing))
    return Problem(
        name=source_text.printable(path.stem), reference=data, source_set=SOURCE_SET, level=level
    )


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    """Names that a module's statements bind: definitions, imports and assignments, also
    those under `if`, `with` and `try`.
    """
    for node in body:
        match node:
            case ast.ClassDef() | ast.FunctionDef():
                yield node.name
            case ast.Import() | ast.ImportFrom():
                yield from (alias.asname or alias.name for alias in node.names)
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (
                    each.id
                    for target in targets
                    for each in ast.walk(target)
                    if isinstance(each, ast.Name)
                )
            case ast.If() | ast.With() | ast.Try():
                yield from _bound(
                    [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)]
                )
                yield from _bound(
                    [each for handler in getattr(node, "handlers", ()) for each in handler.body]
                )
