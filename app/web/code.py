"""BROWSE: source code as highlighted lines, and the difference between two sources."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pygments
from markupsafe import Markup, escape
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from app.domain import source
from app.web import text as texts

SHOWN_BYTES = 128 << 10
"""Source beyond this is offered as a download: a page of 5 MB is of no use."""

HIGHLIGHTED_BYTES = 32 << 10
"""Longer source is shown without colours: unclosed string escapes take Pygments quadratic time (10 s at 128 KiB)."""

DIFF_LINES = 4000
"""Lines of each side that are compared; with popular lines left out of matching, the worst found takes under 1 s."""

CONTEXT_LINES = 4
"""Unchanged lines around a change in a diff."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Highlighted source, line by line."""

    lines: tuple[Markup, ...]
    total_bytes: int
    hidden_bytes: int
    """Bytes beyond SHOWN_BYTES, not in `lines`."""


@dataclass(frozen=True, kw_only=True)
class DiffLine:
    """One line of a unified diff; `kind` is `same`, `added`, `removed` or `gap`."""

    kind: str
    old: int | None
    """1-based line number before the change."""
    new: int | None
    text: str
    """Markup, or plain text of a gap."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A line of both sides, side by side; None where a side has none."""

    old: DiffLine | None
    new: DiffLine | None


@dataclass(frozen=True, kw_only=True)
class Diff:
    """Changes from one source to the next."""

    lines: tuple[DiffLine, ...]
    added: int
    removed: int
    cut: bool
    """True if a side has more than DIFF_LINES lines, the rest of which was not compared."""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The same side by side: what was removed stands beside what was added in its place."""
        pairs: list[Pair] = []
        for kind, group in itertools.groupby(self.lines, lambda line: line.kind in ("added", "removed")):
            lines = list(group)
            if not kind:
                pairs += [Pair(old=line, new=line) for line in lines]
                continue
            removed = [line for line in lines if line.kind == "removed"]
            added = [line for line in lines if line.kind == "added"]
            pairs += [Pair(old=old, new=new) for old, new in itertools.zip_longest(removed, added)]
        return tuple(pairs)


def shown(data: bytes) -> str:
    """The part of a source that pages show, as text that hides nothing."""
    readable = source.display(data[:SHOWN_BYTES]).replace("\r\n", "\n").replace("\r", "\n")
    return texts.visible(readable)


def listing(data: bytes) -> Listing:
    """Python source, highlighted with CSS classes."""
    return Listing(
        lines=_highlighted(data[:SHOWN_BYTES]),
        total_bytes=len(data),
        hidden_bytes=max(0, len(data) - SHOWN_BYTES),
    )


@lru_cache(maxsize=256)
def _highlighted(data: bytes) -> tuple[Markup, ...]:
    """Lines of markup.  Pygments escapes any source."""
    if len(data) > HIGHLIGHTED_BYTES:
        return tuple(escape(line) for line in _lines(data))
    formatter = HtmlFormatter(nowrap=True, classprefix="k-")
    html = pygments.highlight(shown(data), PythonLexer(stripnl=False, ensurenl=True), formatter)
    return tuple(Markup(line) for line in html.removesuffix("\n").split("\n"))  # noqa: S704 (escaped by Pygments)


def diff(old: bytes, new: bytes, *, ignore_space: bool = False) -> Diff:
    """The unified difference, with line numbers of both sides and gaps where unchanged lines are left out.

    With `ignore_space` lines that differ in blanks only count as the same; the new side's are shown."""
    before, after = _lines(old), _lines(new)
    cut = max(len(before), len(after)) > DIFF_LINES
    before, after = before[:DIFF_LINES], after[:DIFF_LINES]
    looks = _marked(old, before), _marked(new, after)
    lines: list[DiffLine] = []
    if ignore_space:
        before, after = (["".join(line.split()) for line in side] for side in (before, after))
    matcher = difflib.SequenceMatcher(a=before, b=after)
    for number, group in enumerate(matcher.get_grouped_opcodes(CONTEXT_LINES)):
        if number or group[0][1] or group[0][3]:
            lines.append(DiffLine(kind="gap", old=None, new=None, text=f"line {group[0][3] + 1}"))
        for tag, a1, a2, b1, b2 in group:
            lines += _opcode(tag, *looks, (a1, a2), (b1, b2))
    kinds = [line.kind for line in lines]
    return Diff(lines=tuple(lines), added=kinds.count("added"), removed=kinds.count("removed"), cut=cut)


def _lines(data: bytes) -> list[str]:
    """Lines as an editor counts them: not `splitlines`, which also splits at form feeds and Unicode separators."""
    text = shown(data)
    return text.removesuffix("\n").split("\n") if text else []


def _marked(data: bytes, lines: list[str]) -> Sequence[str]:
    """The lines as highlighted markup; plain where highlighting does not keep to lines."""
    marked = _highlighted(data[:SHOWN_BYTES])
    return marked if len(marked) >= len(lines) else [escape(line) for line in lines]


def _opcode(
    tag: str, before: Sequence[str], after: Sequence[str], old: tuple[int, int], new: tuple[int, int]
) -> list[DiffLine]:
    if tag == "equal":
        return [
            DiffLine(kind="same", old=i + 1, new=j + 1, text=after[j])
            for i, j in zip(range(*old), range(*new), strict=True)
        ]
    removed = [DiffLine(kind="removed", old=i + 1, new=None, text=before[i]) for i in range(*old)]
    return removed + [DiffLine(kind="added", old=None, new=j + 1, text=after[j]) for j in range(*new)]
