"""Comments and tags: their subjects and their limits."""

from __future__ import annotations

import re
from enum import StrEnum

from app.domain.source import source_text

LONGEST_COMMENT = 10_000
"""Characters of a comment at most: a page of text, and more than a review needs."""
_TAG = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")


class AnnotationTarget(StrEnum):
    """Kind of object that comments and tags refer to."""

    RUN = "run"
    PROBLEM = "problem"
    TRAJECTORY = "trajectory"
    CANDIDATE = "candidate"


class AnnotationError(ValueError):
    """A comment or tag that cannot be stored; the message states expected and actual values."""


def comment(text: str) -> str:
    """The text of a comment without surrounding space.  Raises AnnotationError."""
    text = text.strip()
    if not text or len(text) > LONGEST_COMMENT:
        raise AnnotationError(
            f"comment: expected 1 to {LONGEST_COMMENT} characters, got {len(text)}"
        )
    if (at := source_text.unstorable(text)) is not None:
        raise AnnotationError(
            f"comment: expected text without NUL and lone surrogates, got one at position {at + 1}"
        )
    return text


def tag(text: str) -> str:
    """A tag in lower case.  Raises AnnotationError."""
    text = text.strip().lower()
    if not _TAG.fullmatch(text):
        raise AnnotationError(
            f"tag: expected up to 40 letters, digits, dots and dashes without spaces, got {text!r}"
        )
    return text
