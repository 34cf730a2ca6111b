"""Measures of the language of docstrings, comments and names.

python -m tests.language               figures of the checkout, and the docstrings that open badly
python -m tests.language app/domain    the same for some folders or files"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
TREES = ("app", "workers", "migrations")

OPENINGS = frozenset({"as", "be", "of", "those", "what", "whatever", "whichever", "who", "whoever", "whom", "whose"})
"""First words that leave a docstring without a subject when it is read alone, in a hover or a search result."""

WORDS = {
    "what": frozenset({"what"}),
    "who": frozenset({"who", "whom", "whose", "whoever"}),
    "nobody": frozenset({"nobody", "somebody", "ours"}),
}
"""Words whose frequency is limited, by the name of their figure."""


@dataclass(frozen=True, kw_only=True)
class Docstring:
    """One docstring: of a module, class or function, or below an attribute."""

    path: Path
    line: int
    text: str

    @property
    def opening(self) -> str:
        """First word in lower case, after a stage ("BROWSE: "), brackets and quotes."""
        match = re.match(r"(?:[A-Z]+: )?[`(…\s]*([A-Za-z]+)", self.text)
        return match[1].lower() if match else ""


def sources(roots: Iterable[Path]) -> Iterator[Path]:
    """Python files below the folders, in order."""
    for root in roots:
        yield from sorted(root.rglob("*.py")) if root.is_dir() else [root]


def documents() -> list[Path]:
    """The project's documents, in order."""
    found = [*ROOT.glob("*.md"), *ROOT.glob(".github/*.md")]
    for top in ("app", "workers", "tests"):
        found += ROOT.glob(f"{top}/**/*.md")
    return sorted(found)


@cache
def docstrings(path: Path) -> tuple[Docstring, ...]:
    """All docstrings of a file, those below attributes included."""
    return tuple(_docstrings(path))


def _docstrings(path: Path) -> Iterator[Docstring]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for statement in node.body:
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield Docstring(path=path, line=statement.lineno, text=text)


@cache
def comments(path: Path) -> tuple[str, ...]:
    """Texts of a file's comments."""
    tokens = tokenize.tokenize(io.BytesIO(path.read_bytes()).readline)
    return tuple(token.string for token in tokens if token.type == tokenize.COMMENT)


def badly_opened(paths: Iterable[Path]) -> list[Docstring]:
    """Docstrings whose first word is one of OPENINGS."""
    return [one for path in paths for one in docstrings(path) if one.opening in OPENINGS]


def per_thousand(paths: Iterable[Path]) -> dict[str, float]:
    """Occurrences of WORDS per 1,000 words of docstrings and comments."""
    words: list[str] = []
    for path in paths:
        for text in [*(one.text for one in docstrings(path)), *comments(path)]:
            words += re.findall(r"[a-z][a-z'’-]*", text.lower())
    return {name: 1000 * sum(word in wanted for word in words) / len(words) for name, wanted in WORDS.items()}


def stdlib_names(paths: Iterable[Path]) -> set[str]:
    """Modules named like one of the standard library, as paths relative to the root."""
    return {str(path.relative_to(ROOT)) for path in paths if path.stem in sys.stdlib_module_names}


def skips(paths: Iterable[Path]) -> int:
    """Lines that the formatter is told to skip."""
    return sum("fmt: skip" in text for path in paths for text in comments(path))


def _print(paths: list[Path]) -> None:
    bad = badly_opened(paths)
    for one in bad:
        print(f"{one.path.relative_to(ROOT)}:{one.line}: {one.text.splitlines()[0][:100]}")
    print({"badly_opened": len(bad), "fmt_skip": skips(paths), **per_thousand(paths)}, sorted(stdlib_names(paths)))


if __name__ == "__main__":
    _print(list(sources([ROOT / name for name in sys.argv[1:] or TREES])))
