"""Measures of the language that a person reads: docstrings, comments, messages,
templates and scripts.

    python -m tests.language               figures of the checkout, and the texts that open badly
    python -m tests.language app/domain    the same for some folders or files

A docstring, comment or message that opens with one of OPENINGS has no subject when it is
read alone.  Messages are the string constants of at least LEAST_WORDS words that are no
docstring: help, errors, labels, explanations of findings, rules of datasets.  SQL and
patterns are among them, and open otherwise.
"""

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
CANDIDATES = ROOT / "tests" / "zoo"
"""Folder of sample candidates, which have a language of their own."""

OPENINGS = frozenset(
    {"as", "be", "of", "those", "what", "whatever", "whichever", "who", "whoever", "whom", "whose"}
)
"""First words that leave a text without a subject when it is read alone, in a hover
or a search result.
"""

CONNECTING = frozenset({"as", "of", "those"})
"""Words of OPENINGS with which a label beside a number, or the rest of a line, may begin."""

WORDS = {
    "what": frozenset({"what"}),
    "who": frozenset({"who", "whom", "whose", "whoever"}),
    "nobody": frozenset({"nobody", "somebody", "ours"}),
}
"""Words of limited frequency, by the name of their figure."""

LEAST_WORDS = 3
"""Words from which on a string constant is a message."""

PLACEHOLDER = "X"
"""Word that stands for a value in a message."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """One text of a file: a docstring, a comment, a message, or a piece of a template."""

    path: Path
    line: int
    text: str

    continues: bool = False
    """True for a text that may go on from the one before it, if it begins with a
    small letter: `of 17 rows`.
    """

    @property
    def opening(self) -> str:
        """First word in lower case, after a stage ("BROWSE: "), brackets and quotes;
        empty where it continues.
        """
        match = re.match(r"(?:[A-Z]+: )?[`(…\s]*([A-Za-z]+)", self.text)
        if match is None or (self.continues and match[1].islower() and match[1] in CONNECTING):
            return ""
        return match[1].lower()


def sources(roots: Iterable[Path]) -> Iterator[Path]:
    """Python files below the folders, in order, without sample candidates."""
    for root in roots:
        found = sorted(root.rglob("*.py")) if root.is_dir() else [root]
        yield from (path for path in found if path.parent.parent != CANDIDATES)


def pages() -> list[Path]:
    """Templates, scripts and style sheets of the web UI, without those of others."""
    web = ROOT / "app" / "web"
    found = [*web.glob("templates/**/*.html"), *web.glob("static/*.js"), *web.glob("static/*.css")]
    return sorted(found)


def documents() -> list[Path]:
    """The project's documents, in order."""
    found = [*ROOT.glob("*.md"), *ROOT.glob(".github/*.md")]
    for top in ("app", "workers", "tests"):
        found += ROOT.glob(f"{top}/**/*.md")
    return sorted(found)


@cache
def docstrings(path: Path) -> tuple[Text, ...]:
    """All docstrings of a file, those below attributes included."""
    return tuple(
        Text(path=path, line=node.lineno, text=str(node.value)) for node in _docstrings(path)
    )


def _docstrings(path: Path) -> Iterator[ast.Constant]:
    pending: list[ast.AST] = [_tree(path)]
    while pending:
        node = pending.pop()
        holds = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for field in ("body", "orelse", "handlers", "finalbody"):
            statements = getattr(node, field, ())
            for statement in statements if isinstance(statements, list) else ():
                match statement:
                    case ast.Expr(value=ast.Constant(value=str()) as constant) if holds:
                        yield constant
                    case ast.Expr() | ast.Assign() | ast.Return():
                        pass
                    case _:
                        pending.append(statement)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def comments(path: Path) -> tuple[Text, ...]:
    """A file's comments, lines of a block together."""
    found: list[Text] = []
    last = (0, 0)
    for token in tokenize.tokenize(io.BytesIO(path.read_bytes()).readline):
        if token.type != tokenize.COMMENT:
            continue
        text, (line, column) = token.string.lstrip("#: "), token.start
        if (line - 1, column) == last:
            found[-1] = Text(path=path, line=found[-1].line, text=f"{found[-1].text} {text}")
        else:
            found.append(Text(path=path, line=line, text=text))
        last = (line, column)
    return tuple(found)


@cache
def messages(path: Path) -> tuple[Text, ...]:
    """String constants that may be read by people: no docstrings, LEAST_WORDS words or more."""
    tree = _tree(path)
    inner = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    inner |= {id(node) for node in _docstrings(path)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in inner:
            text = _words(node)
            if len(text.split()) >= LEAST_WORDS:
                found.append(Text(path=path, line=node.lineno, text=text, continues=True))
    return tuple(found)


def _words(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    parts = (part.value if isinstance(part, ast.Constant) else PLACEHOLDER for part in node.values)
    return "".join(map(str, parts))


_PIECES = {
    ".html": re.compile(
        r"{#(?P<comment>.*?)#}|(?:title|placeholder|aria-label|alt)=\"(?P<attribute>[^\"<]*)\"|>(?P<text>[^<]+)<",
        re.DOTALL,
    ),
    ".js": re.compile(r"(?:^|\s)//(?P<comment>[^\n]*)|/\*(?P<block>.*?)\*/", re.DOTALL),
    ".css": re.compile(r"/\*(?P<comment>.*?)\*/", re.DOTALL),
}
"""Texts, labels and comments in a page's file, by its ending."""


@cache
def pieces(path: Path) -> tuple[Text, ...]:
    """Texts, labels and comments of a template, a script or a style sheet."""
    whole = path.read_text()
    found = []
    for match in _PIECES[path.suffix].finditer(whole):
        text = re.sub(
            r"{{.*?}}",
            PLACEHOLDER,
            re.sub(r"{%.*?%}", " ", match[match.lastgroup or 0], flags=re.DOTALL),
        )
        if text.strip():
            line = whole.count("\n", 0, match.start()) + 1
            found.append(
                Text(
                    path=path,
                    line=line,
                    text=" ".join(text.split()),
                    continues=match.lastgroup == "text",
                )
            )
    return tuple(found)


def read_by_people(path: Path) -> tuple[Text, ...]:
    """Every text of a file that a person may read."""
    if path.suffix == ".py":
        return (*docstrings(path), *comments(path), *messages(path))
    return pieces(path)


def badly_opened(paths: Iterable[Path]) -> list[Text]:
    """Texts that begin with one of OPENINGS."""
    return [one for path in paths for one in read_by_people(path) if one.opening in OPENINGS]


def per_thousand(paths: Iterable[Path]) -> dict[str, float]:
    """Occurrences of WORDS per 1,000 words of docstrings and comments, or of a page's texts."""
    words: list[str] = []
    for path in paths:
        for one in (*docstrings(path), *comments(path)) if path.suffix == ".py" else pieces(path):
            words += re.findall(r"[a-z][a-z'’-]*", one.text.lower())
    return {
        name: 1000 * sum(word in wanted for word in words) / len(words)
        for name, wanted in WORDS.items()
    }


def unnamed(paths: Iterable[Path]) -> list[Text]:
    """Texts with a word of `nobody`, in any place."""
    return [
        one
        for path in paths
        for one in read_by_people(path)
        if WORDS["nobody"] & set(re.findall(r"(?<![`'\"])\b[a-z]+\b(?![`'\"])", one.text.lower()))
    ]


def stdlib_names(paths: Iterable[Path]) -> set[str]:
    """Modules named like one of the standard library, as paths relative to the root."""
    return {str(path.relative_to(ROOT)) for path in paths if path.stem in sys.stdlib_module_names}


def skips(paths: Iterable[Path]) -> int:
    """Lines that the formatter is told to skip."""
    return sum("fmt: skip" in one.text for path in paths for one in comments(path))


def _print(paths: list[Path]) -> None:
    bad = badly_opened([*paths, *pages()])
    for one in [*bad, *unnamed([*paths, *pages()])]:
        print(f"{one.path.relative_to(ROOT)}:{one.line}: {' '.join(one.text.split())[:100]}")
    print(
        {"badly_opened": len(bad), "fmt_skip": skips(paths), **per_thousand(paths)},
        sorted(stdlib_names(paths)),
    )


if __name__ == "__main__":
    _print(list(sources([ROOT / name for name in sys.argv[1:] or TREES])))
