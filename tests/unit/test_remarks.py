"""Texts of comments and tags."""

from __future__ import annotations

import pytest

from app.domain import remark
from app.domain.remark import LONGEST_COMMENT, AnnotationError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" \n", f"expected 1 to {LONGEST_COMMENT} characters, got 0"),
        ("a" * (LONGEST_COMMENT + 1), f"expected 1 to {LONGEST_COMMENT} characters, got 10001"),
        ("abc\0d", "expected text without NUL and lone surrogates, got one at position 4"),
        ("\ud800", "expected text without NUL and lone surrogates, got one at position 1"),
    ],
)
def test_a_comment_that_cannot_be_stored_is_refused(text: str, message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        remark.comment(text)


def test_a_comment_loses_the_space_around_it() -> None:
    assert remark.comment(" two words\n") == "two words"
