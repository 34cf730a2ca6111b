"""BROWSE: decoded JSON as a declared type, for every route that takes a body."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


def converted(value: object, kind: type[T], *, strict: bool = True) -> T:
    """The value as that type.  Raises msgspec.ValidationError, also for text with lone surrogates
    in a place where a number, an id or an object is expected: msgspec fails to encode it.
    """
    try:
        return msgspec.convert(value, kind, strict=strict)
    except UnicodeEncodeError as error:
        raise msgspec.ValidationError(
            f"Expected another type than text with lone surrogates, got {error.object!r:.80}"
        ) from error
