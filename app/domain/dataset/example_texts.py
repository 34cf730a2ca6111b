"""EXPORT: texts that an example is made of, as stored and as shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import NamedTuple

import msgspec

from app.domain.dataset import secret_scan
from app.domain.source import source_text

ROLES = frozenset({"system", "user", "assistant", "tool"})
"""Roles that chat templates know."""


class ChatMessage(dict[str, str]):
    """One chat message, `{"role", "content"}` as chat templates take it: clean text
    (no NUL, no lone surrogates).

    Made once for all the rows that show it, so never to be changed.
    """

    __slots__ = ()

    def __init__(self, role: str, content: str) -> None:
        super().__init__(role=role, content=content)

    @property
    def role(self) -> str:
        """Role of the speaker."""
        return self["role"]

    @property
    def content(self) -> str:
        """Text of the message."""
        return self["content"]


class Text(NamedTuple):
    """A source as stored, read once for all the rows that show it."""

    shown: str
    sanitized: bool
    secret: str | None
    """Kind of secret in it, or None."""

    @classmethod
    def read(cls, stored: bytes, *, search: bool = True) -> Text:
        """The source, cleaned; the caller searches it for secrets unless this did."""
        shown, sanitized = _cleaned(stored)
        return cls(shown, sanitized, secret_scan.found((shown,)) if search else None)


class Exchange(NamedTuple):
    """One turn of a dialogue as stored, read once for all the rows that show it."""

    place: int
    """From 0."""
    said: tuple[ChatMessage, ...]
    """Its messages, its answer last."""
    recorded: bool
    """True if there were messages: code without a prompt is shown under a built-in prompt."""
    fault: str | None
    """Reason why no conversation can show it."""
    sanitized: bool
    secret: str | None
    """Kind of secret in it, or None."""

    @classmethod
    def read(
        cls, place: int, messages_json: str | bytes, response: bytes, *, search: bool = True
    ) -> Exchange:
        """The turn, cleaned; the caller searches it for secrets unless this did."""
        said, sanitized = [], False
        for message in _parsed(messages_json):
            role, content = message["role"], message["content"]
            if not content.isascii() or "\x00" in content:
                content, changed = _cleaned(source_text.encode(content))
                sanitized |= changed
            said.append(ChatMessage(role, content))
        recorded = bool(said)
        answer, changed = _cleaned(response)
        said.append(ChatMessage("assistant", answer))
        secret = secret_scan.found(message.content for message in said) if search else None
        return cls(place, tuple(said), recorded, _fault(said), sanitized or changed, secret)


class First(NamedTuple):
    """The first turn of a dialogue of which something is true."""

    number: int
    """Its number from 0; that of no turn where it is true of none."""
    text: str

    def within(self, count: int) -> str | None:
        """The text, where it is one of the first `count` turns; else None."""
        return self.text if self.number < count else None


class Dialogue:
    """The turns of a trajectory, read once for all the rows that show its first
    ones: a row takes slices of it.
    """

    __slots__ = ("_alone", "answers", "flaw", "places", "prompt", "said", "sanitized", "secret")

    def __init__(self, turns: Sequence[Exchange]) -> None:
        self.places = [turn.place for turn in turns]
        self.said = tuple(chain.from_iterable(turn.said for turn in turns))
        """All messages."""
        self.answers = tuple(end - 1 for end in accumulate(len(turn.said) for turn in turns))
        """Index in `said` of the answer of every turn."""
        self.prompt = turns[0].said[:-1] if turns else ()
        """Messages before the first answer."""
        self.flaw = _first(map(_flaw, range(len(turns)), turns))
        """Reason why no conversation can show the turn."""
        self.secret = _first(turn.secret for turn in turns)
        self.sanitized = _first("replaced" if turn.sanitized else None for turn in turns)
        self._alone = not turns or (turns[0].place == 0 and not turns[0].recorded)

    def is_unprompted(self, count: int) -> bool:
        """True if its first `count` turns hold no message but one answer: code without a prompt."""
        return count == 0 or (count == 1 and self._alone)


def _flaw(number: int, turn: Exchange) -> str | None:
    reason = "is not stored" if turn.place != number else turn.fault
    return None if reason is None else f"turn {number} of the conversation {reason}"


def _first(texts: Iterable[str | None]) -> First:
    number = 0
    for number, text in enumerate(texts, start=1):
        if text is not None:
            return First(number - 1, text)
    return First(number, "")


class Texts(NamedTuple):
    """Stored texts of one attempt."""

    reference: Text
    source: Text | None
    """None where it was not read, because the rows do not show it: see `shows_source`."""
    dialogue: Dialogue
    """Dialogue of its trajectory; without turns for a candidate that came alone."""
    turns: int
    """Turns that are shown: its own and those before it."""
    asked: tuple[ChatMessage, ...] = ()
    """Messages that the problem's source set asks with; empty for none."""


def _parsed(messages_json: str | bytes) -> list[dict[str, str]]:
    """A quarter of the time of `json.loads`, which is there for input that only
    Python takes: lone surrogates.
    """
    try:
        found: list[dict[str, str]] = msgspec.json.decode(messages_json)
    except (msgspec.DecodeError, UnicodeEncodeError):
        found = json.loads(messages_json)
    return found


def _fault(said: Sequence[ChatMessage]) -> str | None:
    """Reason that one turn's messages, answer last, make no example; None if they do."""
    if len(said) == 1:
        return "has no messages"
    if said[-2].role == "assistant":
        return "is answered twice"
    for message in said:
        if message.role not in ROLES:
            return f"has the role {message.role!r}"
    return None


def _cleaned(data: bytes) -> tuple[str, bool]:
    """Text that Parquet and JSON can hold, and whether something had to be replaced."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return source_text.display(data), True
    return (source_text.display(data), True) if "\x00" in text else (text, False)
