"""COLLECT: rows that never change, read once per process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from uuid import UUID

from app.domain.collection.templates import Template
from app.domain.problem import Problem
from app.domain.trajectory import Message
from app.store.collection import messages, prompt_templates
from app.store.postgres.database import Connection
from app.store.trajectory import problems

MOST = 1_000
"""Problems kept: some kilobytes each."""
MOST_CHARACTERS = 8 << 20
"""In all messages kept: those of the last calls, which the next ones of the same
rollouts show again.
"""

_problems: OrderedDict[UUID, Problem] = OrderedDict()
_messages: OrderedDict[bytes, Message] = OrderedDict()
_characters = 0
_templates: dict[tuple[str, str], Template] = {}


def problem(connection: Connection, problem_id: UUID) -> Problem:
    """The stored problem of that id."""
    found = _problems.get(problem_id)
    if found is None:
        found = problems.get(connection, problem_id)
        assert found is not None  # a foreign key says so
        _problems[problem_id] = found
        if len(_problems) > MOST:
            _problems.popitem(last=False)
    return found


def keep(connection: Connection, told: Sequence[Message]) -> list[bytes]:
    """Store those messages that are new; their keys, in their order."""
    keys = messages.keep(connection, told)
    _remember(dict(zip(keys, told, strict=True)))
    return keys


def conversation(connection: Connection, keys: Sequence[bytes]) -> list[Message]:
    """The stored messages of those keys, which are hashes of their content."""
    told = {key: _messages[key] for key in keys if key in _messages}
    if missing := [key for key in keys if key not in told]:
        told |= messages.load(connection, missing)
    _remember(told)
    return [told[key] for key in keys]


def _remember(told: dict[bytes, Message]) -> None:
    global _characters
    for key, message in told.items():
        if key not in _messages:
            _characters += len(message.content)
        _messages[key] = message
        _messages.move_to_end(key)
    while _characters > MOST_CHARACTERS:
        _characters -= len(_messages.popitem(last=False)[1].content)


def template(connection: Connection, ref: str, kind: str) -> Template:
    """The template of a collection's reference, `name@hash`."""
    found = _templates.get((ref, kind))
    if found is None:
        found = _templates[ref, kind] = prompt_templates.find(connection, ref, kind)
    return found
