"""Source text as bytes: a model's text is kept exactly, however odd, and shown to people safely."""

from __future__ import annotations

import re

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def encode(text: str) -> bytes:
    """UTF-8 that survives lone surrogates (which PostgreSQL and strict encoders refuse)."""
    return text.encode("utf-8", "surrogatepass")


def display(data: bytes) -> str:
    """Text for people and for columns of type text: undecodable bytes and NUL become U+FFFD."""
    return data.decode("utf-8", "replace").replace("\x00", "\ufffd")


def printable(text: str) -> str:
    """The same safety for text that is already decoded."""
    return display(encode(text))


def unstorable(text: str) -> int | None:
    """Index of the first character that PostgreSQL keeps in no column of type text: NUL, or a lone
    surrogate.  None without any.
    """
    found = _UNSTORABLE.search(text)
    return None if found is None else found.start()


def decode(data: bytes) -> str:
    """The text that `encode` was given; UnicodeDecodeError for bytes that never came from it."""
    return data.decode("utf-8", "surrogatepass")
