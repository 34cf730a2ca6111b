"""EXPORT: check that an answer shows the evaluated code, whole and in the place
where code is looked for.

An answer that was cut off, that shows two models, or that ends in a block other than the measured
one would teach something never measured.
"""

from __future__ import annotations

import re

from app.domain.source import fences, language
from app.domain.source.source_text import encode

VERSION = 3
"""Changes with everything here that changes an outcome."""

OK = "ok"
TRUNCATED = "truncated"
"""A fence or a thought that is not closed."""
NO_BLOCK = "no_block"
NO_MODEL = "no_model"
SEVERAL_MODELS = "several_models"
OTHER_LANGUAGE = "other_language"
"""The prompt asks for a language, or for kernels, and the code is written in
another, or brings none.
"""
OTHER_SOURCE = "other_source"
"""The last complete block is not the evaluated source, blanks aside."""

THOUGHT_END = "</think>"
THOUGHT_START = "<think>"


def check(response: str, source: str, entry_point: str, *, prompt: str = "") -> str:
    """`ok`, or why the answer is not fit to learn from; `prompt`: the conversation's opening."""
    outcome = _shows(response, source, entry_point)
    if outcome == OK and not language.answers(encode(source), language.asked(prompt)):
        return OTHER_LANGUAGE
    return outcome


def after_thought(response: str) -> str:
    """The answer behind its last thought; all of it where no thought was closed."""
    return response.rpartition(THOUGHT_END)[2]


def is_cut_in_thought(shown: str) -> bool:
    """True if the text behind the last closed thought begins another: its code is none yet."""
    return THOUGHT_START in shown


def _shows(response: str, source: str, entry_point: str) -> str:
    shown = after_thought(response)
    if is_cut_in_thought(shown):
        return TRUNCATED
    if _bare(shown) == _bare(source):  # code alone, no prose and no fence
        return _models(shown, entry_point)
    block, whole = last_block(shown)
    if not whole:
        return TRUNCATED
    if block is None:
        return NO_BLOCK
    outcome = _models(block, entry_point)
    return OTHER_SOURCE if outcome == OK and _bare(block) != _bare(source) else outcome


def last_block(text: str) -> tuple[str | None, bool]:
    """The content of the last complete fenced block, and whether every fence is closed."""
    found, whole = fences.blocks(text)
    return found[-1].text if found else None, whole


def _models(block: str, entry_point: str) -> str:
    count = len(re.findall(rf"^class[ \t]+{re.escape(entry_point)}New\b", block, re.MULTILINE))
    return OK if count == 1 else NO_MODEL if count == 0 else SEVERAL_MODELS


def _bare(code: str) -> str:
    return "".join(code.split())
