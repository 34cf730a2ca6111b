"""COLLECT: server-sent events out of the chunks of a response, as the HTML standard
defines them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

LONGEST_EVENT_BYTES = 16 << 20
"""A chunk with the logprobs of a thousand tokens takes 200 KB."""
MARK = b"\xef\xbb\xbf"
"""Byte order mark, one of which may begin a stream."""
DONE = "[DONE]"
"""Data of the last event of an OpenAI-compatible stream."""


class MalformedStreamError(ValueError):
    """An event is longer than LONGEST_EVENT_BYTES."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One event: its name (`message` where the stream gives none) and its data."""

    data: str
    name: str = "message"


class Decoder:
    """Events of a stream that arrives in pieces of any length.

    An event counts when the blank line after it has come.  Comments (`: OPENROUTER PROCESSING`) and
    the fields `id` and `retry` are skipped.  Bytes that are no UTF-8 become replacement characters.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """Pieces of a line that has not ended."""
        self._held = 0
        """Bytes of these pieces."""
        self._data: list[str] = []
        self._size = 0
        self._name = ""
        self._after_cr = False
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Events that the chunk completes.  Raises MalformedStreamError."""
        if not chunk:
            return
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        first, *later = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest.append(first)
        self._held += len(first)
        for piece in later:
            line = b"".join(self._rest)
            line, self._begun = line if self._begun else line.removeprefix(MARK), True
            event = self._line(line.decode("utf-8", "replace"))
            self._rest, self._held = [piece], len(piece)
            if event is not None:
                yield event
        if self._held + self._size > LONGEST_EVENT_BYTES:
            raise MalformedStreamError(
                f"event: expected at most {LONGEST_EVENT_BYTES} bytes, got more"
            )

    def _line(self, line: str) -> Event | None:
        if not line:
            event = Event(data="\n".join(self._data), name=self._name or "message")
            told = bool(self._data)
            self._data, self._name, self._size = [], "", 0
            return event if told else None
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._size += len(value)
        elif field == "event":
            self._name = value
        return None
