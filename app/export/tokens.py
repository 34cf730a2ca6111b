"""EXPORT: tokens of a conversation by a trainer's own tokenizer: a tokenizer.json,
read by the package `tokenizers`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from app.domain.dataset.selection import COUNTER

FILE = "file:"
_MISSING = (
    "expected the package tokenizers (pip install 'kernel-assay[tokenizers]') for a tokenizer.json"
)


def counter(tokenizer: str) -> Callable[[Sequence[str]], int] | None:
    """A function that counts the tokens of messages: contents only, without those that a chat
    template adds.  None for the counter without a vocabulary.  Raises ValueError for a file that is
    no tokenizer, or an unknown name.
    """
    if tokenizer == COUNTER:
        return None
    if not tokenizer.startswith(FILE):
        raise ValueError(
            f"tokenizer: expected {COUNTER} or {FILE}PATH of a tokenizer.json, got {tokenizer!r}"
        )
    try:
        package: Any = importlib.import_module("tokenizers")
    except ImportError as error:
        raise ValueError(f"tokenizer: {_MISSING}, got {error}") from error
    try:
        loaded = package.Tokenizer.from_file(tokenizer.removeprefix(FILE))
    except Exception as error:  # the package raises Exception itself
        raise ValueError(
            f"tokenizer: expected a tokenizer.json, got {tokenizer!r}: {error}"
        ) from error
    return lambda contents: sum(
        len(one.ids) for one in loaded.encode_batch(list(contents), add_special_tokens=False)
    )
