"""BROWSE: source code as highlighted lines, and the difference between two sources."""

from __future__ import annotations

import difflib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pygments
from markupsafe import Markup, escape
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import PythonLexer

from app.domain.source import source_text
from app.web import safe_text as texts
from app.web import word_diff

SHOWN_BYTES = 128 << 10
"""Source beyond this is offered as a download: a page of 5 MB is of no use."""

HIGHLIGHTED_BYTES = 32 << 10
"""Longer source is shown without colours: unclosed string escapes take Pygments
quadratic time (10 s at 128 KiB).
"""

HIGHLIGHT_S = 0.5
"""Time after which a source is shown without colours, in seconds; 32 KiB of code take 0.1 s.  Some
lexers take quadratic time, of which the size is no limit: C++ takes 45 s for 32 KiB of newlines,
and the whole server waits.
"""

DIFF_LINES = 4000
"""Lines of each side that are compared; with popular lines left out of matching, the
worst found takes under 1 s.
"""

CONTEXT_LINES = 4
"""Unchanged lines around a change in a diff."""


Looks = Sequence[str] | Mapping[int, str]
"""Number of a line, from 0, → its markup."""


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
    """True if a side is longer than DIFF_LINES or SHOWN_BYTES: the rest was not compared."""
    compared: tuple[int, int]
    """Lines of both sides that were compared."""
    of: tuple[int, int]
    """Lines of both sides in all."""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The same side by side: removed lines beside the lines added in their place."""
        pairs: list[Pair] = []
        for kind, group in itertools.groupby(
            self.lines, lambda line: line.kind in ("added", "removed")
        ):
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
    readable = source_text.display(data[:SHOWN_BYTES]).replace("\r\n", "\n").replace("\r", "\n")
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
    html = (
        None
        if len(data) > HIGHLIGHTED_BYTES
        else highlighted(shown(data), PythonLexer(stripnl=False, ensurenl=True))
    )
    if html is None:
        return tuple(escape(line) for line in _lines(data))
    return tuple(Markup(line) for line in html.removesuffix("\n").split("\n"))  # noqa: S704 (escaped by Pygments)


class _SlowError(Exception):
    """HIGHLIGHT_S have passed."""


def highlighted(text: str, lexer: Lexer) -> Markup | None:
    """The text with CSS classes, escaped by Pygments; None where that takes over HIGHLIGHT_S."""
    tokens = _until(lexer.get_tokens(text), time.monotonic() + HIGHLIGHT_S)
    formatter = HtmlFormatter(nowrap=True, classprefix="k-")
    try:
        return Markup(pygments.format(tokens, formatter))  # noqa: S704 (escaped by Pygments)
    except _SlowError:
        return None


def _until(tokens: Iterator[tuple[Any, str]], end: float) -> Iterator[tuple[Any, str]]:
    for token in tokens:
        if time.monotonic() > end:
            raise _SlowError
        yield token


def diff(old: bytes, new: bytes, *, ignore_space: bool = False, whole: bool = False) -> Diff:
    """The unified difference, with line numbers of both sides and gaps where unchanged lines are
    left out; `whole` leaves none out.  Words that changed within a line are marked.

    With `ignore_space` lines that differ in blanks only count as the same; the new
    side's are shown.
    """
    before, after = _whole_lines(old)[:DIFF_LINES], _whole_lines(new)[:DIFF_LINES]
    compared, of = (len(before), len(after)), (_line_count(old), _line_count(new))
    cut = compared != of
    looks: tuple[Looks, Looks] = _marked(old, before), _marked(new, after)
    plain = before, after
    words = word_diff.Budget()
    lines: list[DiffLine] = []
    if ignore_space:
        before, after = (["".join(line.split()) for line in side] for side in (before, after))
    matcher = difflib.SequenceMatcher(a=before, b=after)
    for number, group in enumerate(
        matcher.get_grouped_opcodes(DIFF_LINES if whole else CONTEXT_LINES)
    ):
        if number or group[0][1] or group[0][3]:
            lines.append(DiffLine(kind="gap", old=None, new=None, text=f"line {group[0][3] + 1}"))
        for tag, a1, a2, b1, b2 in group:
            left, right = looks
            if tag == "replace":
                left, right = _with_words(*looks, *plain, (a1, a2), (b1, b2), words)
            lines += _opcode(tag, left, right, (a1, a2), (b1, b2))
    kinds = [line.kind for line in lines]
    return Diff(
        lines=tuple(lines),
        added=kinds.count("added"),
        removed=kinds.count("removed"),
        cut=cut,
        compared=compared,
        of=of,
    )


def _lines(data: bytes) -> list[str]:
    """Lines as an editor counts them: not `splitlines`, which also splits at form
    feeds and Unicode separators.
    """
    text = shown(data)
    return text.removesuffix("\n").split("\n") if text else []


def _line_count(data: bytes) -> int:
    """Lines of the whole text, as `_lines` counts them."""
    ended = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return ended.removesuffix(b"\n").count(b"\n") + 1 if data else 0


def _whole_lines(data: bytes) -> list[str]:
    """The lines that pages show, without one that is cut off."""
    lines = _lines(data)
    return lines[:-1] if len(data) > SHOWN_BYTES else lines


def _marked(data: bytes, lines: list[str]) -> Sequence[str]:
    """The lines as highlighted markup; plain where highlighting does not keep to lines."""
    marked = _highlighted(data[:SHOWN_BYTES])
    return marked if len(marked) >= len(lines) else [escape(line) for line in lines]


def _with_words(
    before: Looks,
    after: Looks,
    old_lines: Sequence[str],
    new_lines: Sequence[str],
    old: tuple[int, int],
    new: tuple[int, int],
    budget: word_diff.Budget,
) -> tuple[Mapping[int, str], Mapping[int, str]]:
    """Number of a line → its markup with the words marked that the line in its place
    does not have; without marks once the budget of the diff is spent.
    """
    left = {i: before[i] for i in range(*old)}
    right = {j: after[j] for j in range(*new)}
    for i, j in zip(range(*old), range(*new), strict=False):
        gone, come = word_diff.changed(old_lines[i], new_lines[j], budget)
        left[i], right[j] = word_diff.marked(before[i], gone), word_diff.marked(after[j], come)
    return left, right


def _opcode(
    tag: str, before: Looks, after: Looks, old: tuple[int, int], new: tuple[int, int]
) -> list[DiffLine]:
    if tag == "equal":
        return [
            DiffLine(kind="same", old=i + 1, new=j + 1, text=after[j])
            for i, j in zip(range(*old), range(*new), strict=True)
        ]
    removed = [DiffLine(kind="removed", old=i + 1, new=None, text=before[i]) for i in range(*old)]
    return removed + [
        DiffLine(kind="added", old=None, new=j + 1, text=after[j]) for j in range(*new)
    ]
