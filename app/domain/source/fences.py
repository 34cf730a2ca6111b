"""Fenced blocks of Markdown: code between lines of backticks or tildes."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(
    r"^(?P<indent>[ \t]*+)(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<info>[^\n`]*+)$", re.MULTILINE
)
"""Possessive, so that an answer of any text is read in a time proportional to its length."""
DEEPER = 3
"""Columns by which a closing fence may be further in than the opening one; beyond
that it is a line of the code.
"""
TAB = 4
"""Columns from one tab stop to the next."""


@dataclass(frozen=True, kw_only=True)
class FencedBlock:
    """One complete block."""

    info: str
    """The rest of the opening line: usually the language."""
    text: str
    """The lines between the fences, without the indentation of the opening one:
    blocks in lists are indented.
    """


def blocks(text: str) -> tuple[list[FencedBlock], bool]:
    """Complete blocks in order, and whether every fence is closed."""
    found: list[FencedBlock] = []
    opened: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opened is None:
            opened = match
        elif _closes(match, opened):
            inner = text[opened.end() : match.start()]
            found.append(
                FencedBlock(info=opened["info"].strip(), text=_outdented(inner, opened["indent"]))
            )
            opened = None
    return found, opened is None


def _closes(match: re.Match[str], opened: re.Match[str]) -> bool:
    deeper = _columns(match["indent"]) - _columns(opened["indent"])
    return (
        match["fence"].startswith(opened["fence"])
        and not match["info"].strip()
        and deeper <= DEEPER
    )


def _columns(indent: str) -> int:
    return len(indent.expandtabs(TAB))


def _outdented(text: str, indent: str) -> str:
    """The text with the indentation taken from every line that has it, as far as it has it."""
    if not indent:
        return text
    return re.sub(rf"^[ \t]{{1,{len(indent)}}}", "", text, flags=re.MULTILINE)
