"""EXPORT, BROWSE: tokens of the filter language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from app.domain.filter_fields import Value
from app.domain.source import source_text

MAX_LENGTH = 4_000
"""Longest filter in characters: beyond any typed by a person, within the limit of a URL."""


class WhereError(ValueError):
    """A filter that cannot be read.  The message holds the place, the expected and
    the given text.
    """

    def __init__(self, position: int, expected: str, found: str, hint: str = "") -> None:
        super().__init__(f"position {position}: expected {expected}, got {found}{hint}")
        self.position = position
        """1-based position of the first character that does not fit."""
        self.expected = expected
        self.found = found


KEYWORDS = frozenset({"and", "or", "not", "in", "null"})
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:@+-]*")


def literal(value: Value) -> str:
    """A value as a filter spells it, in quotes where they are needed."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat()
        case str():
            if _PLAIN.fullmatch(value) and value.lower() not in KEYWORDS:
                return value
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case _:
            return str(value)


@dataclass(frozen=True, kw_only=True)
class Token:
    """A part of a filter's text."""

    kind: str
    """Kind of token: `word`, `string`, `operator`, `mark` (parenthesis or comma) or `end`."""
    text: str
    position: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)


_TOKEN = re.compile(
    r"""
    (?P<string>"(?:[^"\\]|\\["'\\])*"|'(?:[^'\\]|\\["'\\])*')
    | (?P<operator>[=!<>~]+)
    | (?P<mark>[(),])
    | (?P<word>[^\s()=!<>~,"']+)
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)")


def tokens(text: str) -> Iterator[Token]:
    """Words, strings, operators and marks; refuses characters that PostgreSQL's text
    cannot hold.
    """
    index = 0
    while index < len(text):
        if text[index].isspace():
            index += 1
            continue
        match = _TOKEN.match(text, index)
        if match is None:
            raise WhereError(
                index + 1,
                "a closing quote (with \\ only before a quote or \\)",
                repr(text[index:][:20]),
            )
        if (offset := source_text.unstorable(match.group())) is not None:
            raise WhereError(
                index + offset + 1,
                "text without NUL and lone surrogates",
                repr(match.group()[offset]),
            )
        kind = str(match.lastgroup)
        content = _ESCAPE.sub(r"\1", match.group()[1:-1]) if kind == "string" else match.group()
        yield Token(kind=kind, text=content, position=index + 1)
        index = match.end()
    yield Token(kind="end", text="", position=len(text) + 1)
