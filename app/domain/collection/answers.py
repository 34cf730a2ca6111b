"""COLLECT: the candidate in a model's answer, or the reason that there is none.

An answer without a candidate is an outcome, with feedback of its own: nothing is evaluated."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from enum import StrEnum

from app.domain.collection.call import End
from app.domain.dataset import code_extraction
from app.domain.source import fences, syntax_tree
from app.domain.source.fences import FencedBlock

LONGEST_SOURCE = 512_000
"""Characters of a candidate; the longest published kernels have 60,000."""
PYTHON = frozenset({"", "python", "python3", "py", "triton"})
"""First words after the opening fence of a block that may hold a candidate."""


class Why(StrEnum):
    """Reason that an answer has no candidate; `ok` where it has one."""

    OK = "ok"
    EMPTY = "empty"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    """The code is cut off: a fence or a thought is not closed."""
    NO_CODE = "no_code"
    NO_MODEL = "no_model"
    """There is code, and no class of the name that was asked for."""
    OTHER_LANGUAGE = "other_language"
    TOO_LONG = "too_long"
    NUL_BYTES = "nul_bytes"


@dataclass(frozen=True, kw_only=True)
class Extracted:
    """The candidate's source, or the reason that there is none."""

    source: str | None
    why: Why


def candidate_of(text: str, *, entry_point: str, end: End) -> Extracted:
    """The last complete block with the class `<entry_point>New`, else the whole answer where it is
    nothing but such a module."""
    shown = code_extraction.after_thought(text)
    if not shown.strip():
        refused = end in (End.REFUSED, End.CONTENT_FILTER)
        return _none(Why.REFUSED if refused else _cut(end) or Why.EMPTY)
    if code_extraction.is_cut_in_thought(shown):
        return _none(Why.TRUNCATED)
    blocks, whole = fences.blocks(shown)
    model = re.compile(rf"^[ \t]*class[ \t]+{re.escape(entry_point)}New\b", re.MULTILINE)
    fitting = [block for block in blocks if model.search(block.text)]
    if fitting:
        return _checked(fitting[-1].text.strip("\n") + "\n")
    if not blocks and whole and model.search(shown) and _is_python(shown):
        return _checked(shown.strip("\n") + "\n")
    return _none(_reason(blocks, whole=whole, end=end))


def _reason(blocks: list[FencedBlock], *, whole: bool, end: End) -> Why:
    if not whole:
        return Why.TRUNCATED
    if any(_language(block) in PYTHON for block in blocks):
        return Why.NO_MODEL
    if blocks:
        return Why.OTHER_LANGUAGE
    if end in (End.REFUSED, End.CONTENT_FILTER):
        return Why.REFUSED
    return _cut(end) or Why.NO_CODE


def _checked(source: str) -> Extracted:
    if "\0" in source:
        return _none(Why.NUL_BYTES)
    if len(source) > LONGEST_SOURCE:
        return _none(Why.TOO_LONG)
    return Extracted(source=source, why=Why.OK)


def _none(why: Why) -> Extracted:
    return Extracted(source=None, why=why)


def _cut(end: End) -> Why | None:
    return Why.TRUNCATED if end is End.LENGTH else None


def _language(block: FencedBlock) -> str:
    return block.info.lower().partition(" ")[0]


def _is_python(text: str) -> bool:
    if "\0" in text or len(text) > LONGEST_SOURCE:
        return True  # for `_checked` to tell
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes are the candidate's own business
            syntax_tree.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
