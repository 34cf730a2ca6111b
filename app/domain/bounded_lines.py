"""Lines of a file up to a longest one: a file without line breaks is not read whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

_PIECE = 1 << 20
"""Bytes read at once of a line that is passed over."""


def lines(file: BinaryIO, longest: int) -> Iterator[tuple[int, bytes | None]]:
    """(Number from 1, line) of each line; None for one of more than `longest` bytes."""
    number = 0
    while line := file.readline(longest + 1):
        number += 1
        if len(line) <= longest or line.endswith(b"\n"):
            yield number, line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(_PIECE)
        yield number, None
