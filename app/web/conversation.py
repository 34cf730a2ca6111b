"""BROWSE: a trajectory as one conversation: every message and answer in order,
reasoning apart, within a size.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.domain.source import source_text
from app.store.browse import trajectory
from app.web import rendered_markdown, safe_text

SHOWN_CHARACTERS = 48 << 10
"""Characters of one message; a longer one is cut, says so, and is complete on its turn's page."""
PAGE_CHARACTERS = 1 << 20
"""Characters of one page; later messages are named, with links."""
PAGE_S = 2.0
"""Processor time of one page's Markdown, in seconds; later messages are shown as they were sent."""

ROLES = {"system": "System", "user": "Task", "assistant": "Answer", "tool": "Tool"}
ALIASES = {"human": "user", "gpt": "assistant", "function_call": "assistant", "observation": "tool"}
"""Roles of ShareGPT → those of chat messages."""
Show = Callable[[str, str], Markup]
"""Function from a text and its id on the page to HTML."""

FEEDBACK = "Feedback"
"""A user's message after the first turn."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One message, or one answer."""

    name: str
    """Id on the page."""
    role: str
    heading: str
    reasoning: Markup | None
    """Text before `</think>`."""
    reasoning_characters: int
    body: Markup
    characters: int
    hidden: int
    """Characters that are not on this page."""


@dataclass(frozen=True, kw_only=True)
class TurnTexts:
    """Everything that was said in one turn."""

    turn_index: int
    entries: tuple[Entry, ...]


def parts(answer: str) -> tuple[str, str]:
    """Reasoning and answer; without a `</think>` everything is answer."""
    before, mark, after = answer.partition("</think>")
    if not mark:
        return "", answer
    return before.removeprefix("<think>").strip("\n"), after.strip("\n")


def said(turns: Sequence[trajectory.TurnText], *, as_sent: bool = False) -> list[TurnTexts]:
    """The conversation up to PAGE_CHARACTERS: Markdown as HTML or, `as_sent`, as plain text."""
    room, until_s = PAGE_CHARACTERS, time.thread_time() + PAGE_S
    found = []
    for turn in turns:
        entries = []
        for position, (role, content) in enumerate(_messages(turn)):
            is_plain = as_sent or time.thread_time() > until_s
            entry = _entry(
                f"turn-{turn.turn_index}-{position}",
                role,
                content,
                turn,
                min(room, SHOWN_CHARACTERS),
                plain if is_plain else rendered_markdown.rendered,
            )
            room -= entry.characters - entry.hidden
            entries.append(entry)
        found.append(TurnTexts(turn_index=turn.turn_index, entries=tuple(entries)))
    return found


def plain(content: str, name: str) -> Markup:
    """The text as it was sent, with a copy button."""
    return Markup(
        '<div class="fence"><button class="button small" type="button" data-copy="{}-sent"'
        ' hidden>Copy</button><pre class="log tall" tabindex="0" id="{}-sent">{}</pre></div>'
    ).format(name, name, safe_text.log(content))


def _messages(turn: trajectory.TurnText) -> list[tuple[str, str]]:
    answer = source_text.display(turn.response)
    return [*((message.role, message.content) for message in turn.messages), ("assistant", answer)]


def message(name: str, role: str, content: str) -> Entry:
    """One message outside of a trajectory, rendered up to SHOWN_CHARACTERS."""
    known = ALIASES.get(role, role)
    heading = {"user": "User", "assistant": "Assistant"}.get(known, known.capitalize())
    return _shown(name, known, heading, content, 0, SHOWN_CHARACTERS, rendered_markdown.rendered)


def _entry(
    name: str, role: str, content: str, turn: trajectory.TurnText, room: int, show: Show
) -> Entry:
    unread = turn.response_bytes - len(turn.response) if role == "assistant" else 0
    heading = FEEDBACK if role == "user" and turn.turn_index else ROLES.get(role, role.capitalize())
    return _shown(name, role, heading, content, unread, room, show)


def _shown(
    name: str, role: str, heading: str, content: str, unread: int, room: int, show: Show
) -> Entry:
    """`unread`: bytes of the content that were not read from the store."""
    reasoning, body = parts(content) if role == "assistant" else ("", content)
    shown_reasoning, shown_body = reasoning[:room], body[:room]
    return Entry(
        name=name,
        role=role,
        heading=heading,
        reasoning=show(shown_reasoning, f"{name}-reasoning") if reasoning else None,
        reasoning_characters=len(reasoning),
        body=show(shown_body, name),
        characters=len(content) + unread,
        hidden=len(reasoning) - len(shown_reasoning) + len(body) - len(shown_body) + unread,
    )
