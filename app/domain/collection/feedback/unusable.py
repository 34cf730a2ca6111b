"""COLLECT: sentences for answers without a candidate."""

from __future__ import annotations

from app.domain.collection.answers import LONGEST_SOURCE, Why

SENTENCES = {
    Why.EMPTY: "Your answer was empty.",
    Why.REFUSED: "Your answer declined the task, so nothing could be evaluated.",
    Why.TRUNCATED: (
        "Your answer was cut off before its code was complete, so nothing could be evaluated. "
        "Write less around the code, and close its block with ```."
    ),
    Why.NO_CODE: (
        "Your answer had no code block, so nothing could be evaluated. "
        "Put the complete module into one ```python block."
    ),
    Why.NO_MODEL: (
        "No code block of your answer defines the class that was asked for, so nothing could be"
        " evaluated. Give the complete module, with the class of that name, in one ```python block."
    ),
    Why.OTHER_LANGUAGE: (
        "Your code block was not Python, so nothing could be evaluated. "
        "Give a Python module in one ```python block; kernels in other languages stand inside it."
    ),
    Why.TOO_LONG: (
        f"Your module had more than {LONGEST_SOURCE} characters, so it was not evaluated."
    ),
    Why.NUL_BYTES: (
        "Your module had NUL characters in it, which no Python source may have, so it was not"
        " evaluated."
    ),
}


def sentence(why: Why) -> str:
    """The sentence for that reason.  KeyError for `ok`: such an answer has a result."""
    return SENTENCES[why]
