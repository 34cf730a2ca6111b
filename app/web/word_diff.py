"""BROWSE: words that differ between two lines, marked in their highlighted markup."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

LONGEST = 500
"""Characters of a line that is compared word by word."""
SIMILAR = 0.4
"""Lines that share less are other lines: everything in them would be marked."""

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_PIECES = re.compile(r"<[^>]*>|&[^;\s]*;|.", re.DOTALL)

Ranges = list[tuple[int, int]]


@dataclass
class Budget:
    """Pairs of words that one diff may compare: each pair of lines costs the product of their
    words.  300 lines of brackets, with 500 words each, would take 10 s, and the server waits.
    """

    pairs: int = 2_000_000

    def spend(self, pairs: int) -> bool:
        """Return whether there is room for so many more."""
        self.pairs -= pairs
        return self.pairs >= 0


def changed(old: str, new: str, budget: Budget) -> tuple[Ranges, Ranges]:
    """Ranges of characters in either line that the other does not have; none where
    the lines have little in common, or the budget is spent.
    """
    if max(len(old), len(new)) > LONGEST:
        return [], []
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    if not budget.spend(len(before) * len(after)):
        return [], []
    matcher = difflib.SequenceMatcher(a=before, b=after, autojunk=False)
    if matcher.ratio() < SIMILAR:
        return [], []
    edits = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return (
        [_span(before, first, last) for _, first, last, _, _ in edits if first < last],
        [_span(after, first, last) for _, _, _, first, last in edits if first < last],
    )


def _span(words: Sequence[str], first: int, last: int) -> tuple[int, int]:
    start = sum(map(len, words[:first]))
    return start, start + sum(map(len, words[first:last]))


def marked(markup: str, ranges: Ranges) -> Markup:
    """The markup with <mark> around the characters of the ranges; tags keep their nesting."""
    wanted = {place for first, last in ranges for place in range(first, last)}
    parts: list[str] = []
    place, is_open = 0, False
    for piece in _PIECES.findall(markup):
        is_tag = piece.startswith("<")
        if is_open and (is_tag or place not in wanted):
            parts.append("</mark>")
            is_open = False
        if not is_tag:
            if place in wanted and not is_open:
                parts.append("<mark>")
                is_open = True
            place += 1
        parts.append(piece)
    return Markup("".join([*parts, "</mark>" if is_open else ""]))  # noqa: S704 (escaped before; only <mark> is added)
