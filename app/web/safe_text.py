"""BROWSE: text that a language model or a kernel under test wrote, made safe and
legible for people.

Escaping is Jinja's work; this guards against the rest: characters that hide, reorder or move text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from markupsafe import Markup, escape

from app.domain.source import source_text

SHOWN_CHARACTERS = 96 << 10
"""Limit on shown text; longer text is cut, says so, and is offered as a download."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\))")
"""Terminal escape sequences (ECMA-48 CSI; OSC with its end, lest an open one swallow
visible text).
"""

_SGR = re.compile(r"\x1b\[([0-9;]{0,40})m")
"""The one kind of escape sequence that is shown: colours and bold."""

_CONTROLS = (*(code for code in range(32) if chr(code) not in "\t\n\r"), *range(0x7F, 0xA0))
_HIDDEN = (
    0x00AD,
    0x061C,
    *range(0x200B, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x206A),
    0xFEFF,
)
"""Soft hyphen, zero-width, separator and bidirectional controls: they make code read
otherwise than it runs.
"""

_VISIBLE = str.maketrans({code: f"⟨U+{code:04X}⟩" for code in (*_CONTROLS, *_HIDDEN)})


def visible(text: str) -> str:
    """`text` with control and hidden characters named, such as ⟨U+202E⟩, and lone
    surrogates as U+FFFD.
    """
    return source_text.printable(text).translate(_VISIBLE)


def breakable(name: str) -> Markup:
    """`visible`, with places after `_` and `/` where a narrow column may break the
    name instead of inside a word.
    """
    return Markup("<wbr>").join(re.split("(?<=[_/])(?=.)", visible(name)))


def log(text: str) -> Markup:
    """The same for program output: of its terminal escape sequences colours and bold
    stay, the others are dropped.

    The colours are CSS classes (`ansi-31` …), so that the page's theme keeps them legible.
    """
    parts: list[Markup] = []
    open_classes: tuple[str, ...] = ()
    at = 0
    for match in _ANSI.finditer(text):
        parts.append(_span(text[at : match.start()], open_classes))
        at = match.end()
        colours = _SGR.fullmatch(match.group())
        if colours:
            open_classes = _classes(open_classes, colours.group(1))
    parts.append(_span(text[at:], open_classes))
    return Markup("").join(parts)


def _span(text: str, classes: tuple[str, ...]) -> Markup:
    shown = escape(visible(text))
    return (
        Markup('<span class="{}">{}</span>').format(" ".join(classes), shown)
        if classes and text
        else shown
    )


def _classes(before: tuple[str, ...], parameters: str) -> tuple[str, ...]:
    """The classes after an SGR sequence (ECMA-48 §8.3.117): 0 resets, 1 is bold, 30
    to 37 and 90 to 97 are colours.
    """
    classes = before
    for code in (int(number or 0) for number in parameters.split(";")):
        if code == 0:
            classes = ()
        elif code == 1:
            classes = (*(name for name in classes if name != "ansi-1"), "ansi-1")
        elif code == 39 or 30 <= code <= 37 or 90 <= code <= 97:
            kept = tuple(name for name in classes if name == "ansi-1")
            classes = kept if code == 39 else (*kept, f"ansi-{code if code < 90 else code - 60}")
    return classes


@dataclass(frozen=True, kw_only=True)
class Capped:
    """The beginning of a text."""

    text: str
    total: int
    """Characters in all."""
    hidden: int
    """Characters that are left out."""


def capped(text: str, limit: int = SHOWN_CHARACTERS) -> Capped:
    """Return at most `limit` characters of a text."""
    return Capped(text=text[:limit], total=len(text), hidden=max(0, len(text) - limit))
