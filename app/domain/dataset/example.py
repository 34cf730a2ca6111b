"""EXPORT: from a chosen attempt to the content of a dataset row.

An attempt that belongs to a recorded trajectory shows the messages as they were exchanged, up to
its answer.  A candidate that came alone was never prompted: it is shown under a built-in prompt
with its name and version beside it (`prompt_source`), and its answer is the source in a fence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from app.domain.dataset import secret_scan
from app.domain.dataset.code_extraction import THOUGHT_END, after_thought
from app.domain.dataset.example_facts import EvaluationFacts, Extra
from app.domain.dataset.example_texts import ChatMessage, Dialogue, Texts
from app.domain.dataset.selection import Kind, Reasoning
from app.domain.prompt_templates import fence, template_prompt

RECORDED = "recorded"
SOURCE_SET = "source_set"
"""The prompt that came with the problem, from the set that it was imported from."""


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """Input of a format: clean text with its provenance.  Made in a fifth of the
    time of a dataclass.
    """

    kind: Kind
    facts: EvaluationFacts
    reference: str
    source: str | None
    """None where it was not read."""
    prompt: tuple[ChatMessage, ...]
    """Messages that open the conversation."""
    history: tuple[ChatMessage, ...]
    """Everything before the answer; begins with the prompt."""
    reply: ChatMessage
    """The answer, as a message."""
    prompt_source: str
    """`recorded` or the name and version of our template."""
    answered: tuple[int, ...] = ()
    """Places in the history of the answers of earlier turns, in order; an answer
    quoted in a prompt is none.
    """
    sanitized: bool = False
    """True if characters had to be replaced by U+FFFD."""
    rejected: ChatMessage | None = None
    """Worse answer, for a pair."""
    rejected_facts: EvaluationFacts | None = None
    extra: Extra = Extra()
    split: str = "train"
    index: int = 0
    """Number within its split, unique."""

    @property
    def answer(self) -> str:
        """Answer of the model."""
        return self.reply.content

    @property
    def messages(self) -> list[ChatMessage]:
        """The conversation with its answer."""
        return [*self.history, self.reply]

    @property
    def quotes_answers(self) -> bool:
        """True if a prompt quotes an answer, of which neither outcome nor verdict is known here."""
        spoken = sum(message.role == "assistant" for message in self.history)
        return spoken > len(self.answered)

    @property
    def shown(self) -> list[ChatMessage]:
        """Every message that a row of its kind may show."""
        if not self.kind.shows_answer:
            return list(self.prompt)
        return self.messages if self.rejected is None else [*self.messages, self.rejected]

    @property
    def trained(self) -> list[bool]:
        """For every message, whether it is to be learnt: the answer, or the answers
        of the turns of `extra.train`.
        """
        if self.extra.train is None:
            return [False] * len(self.history) + [True]
        marks = [False] * (len(self.history) + 1)
        for turn, place in enumerate((*self.answered, len(self.history))):
            marks[place] = turn in self.extra.train
        return marks


class Unfit(ValueError):  # noqa: N818 (a row that is none, not a fault)
    """No row can be made; the message says why."""


def shows_source(dialogue: Dialogue, turns: int, kind: Kind) -> bool:
    """True if the conversation of that many turns holds the source itself, in place
    of an answer as it was recorded.
    """
    return kind is Kind.SINGLE or dialogue.is_unprompted(turns)


class _Shown(NamedTuple):
    """Messages of an example before the last answer, and that answer where one was recorded."""

    prompt: tuple[ChatMessage, ...]
    history: tuple[ChatMessage, ...]
    source: str
    """Origin of the prompt."""
    reply: ChatMessage = ChatMessage("assistant", "")
    answered: tuple[int, ...] = ()
    """Places of earlier answers in the history."""


def build(
    texts: Texts,
    facts: EvaluationFacts,
    kind: Kind,
    reasoning: Reasoning = Reasoning.KEEP,
    **more: Any,
) -> Example:
    """The example of an attempt; `more` are fields of it that are no text.

    Raises Unfit where the recorded conversation has a hole: a missing turn, a turn
    without messages, a role that chat templates do not know, two answers in a row, or
    a secret; and for an answer or a source that is empty, except for rewards, which
    are of every turn.
    """
    if not kind.shows_answer:
        return _prompt_alone(texts, facts, kind, **more)
    code = texts.source.shown if texts.source else None
    is_learnt = kind is not Kind.REWARDS
    if is_learnt and code is not None and not code.strip():
        raise Unfit("the source is empty")
    shown = _shown(texts, facts)
    sanitized = _sanitized(texts)
    if shows_source(texts.dialogue, texts.turns, kind):
        if code is None:
            raise Unfit("there is neither code nor a conversation")
        shown = shown._replace(
            history=shown.prompt, reply=ChatMessage("assistant", fence(code)), answered=()
        )
    if reasoning is not Reasoning.KEEP:
        history, reply = _thinking(shown.history, shown.reply, reasoning)
        shown = shown._replace(history=history, reply=reply)
    if is_learnt and not shown.reply.content.strip():
        raise Unfit("the answer is empty")
    return Example(
        kind=kind,
        facts=facts,
        reference=texts.reference.shown,
        source=code,
        prompt=shown.prompt,
        history=shown.history,
        reply=shown.reply,
        prompt_source=shown.source,
        answered=shown.answered,
        sanitized=sanitized,
        **more,
    )


def _prompt_alone(texts: Texts, facts: EvaluationFacts, kind: Kind, **more: Any) -> Example:
    """The example of a prompt: nothing in the answers to it makes it unfit."""
    shown = _shown(texts, facts)
    secret = texts.reference.secret or secret_scan.found(
        message.content for message in shown.prompt
    )
    if secret:
        raise Unfit(f"secret: {secret}")
    return Example(
        kind=kind,
        facts=facts,
        reference=texts.reference.shown,
        source=None,
        prompt=shown.prompt,
        history=shown.prompt,
        reply=ChatMessage("assistant", ""),
        prompt_source=shown.source,
        sanitized=texts.reference.sanitized
        or texts.dialogue.sanitized.within(texts.turns) is not None,
        **more,
    )


def _shown(texts: Texts, facts: EvaluationFacts) -> _Shown:
    """The recorded conversation, the prompt of the problem's source set, or one made
    from a template.
    """
    if texts.asked:
        return _Shown(texts.asked, texts.asked, SOURCE_SET)
    dialogue, turns = texts.dialogue, texts.turns
    if dialogue.is_unprompted(turns):
        text, source = template_prompt(facts, texts.reference.shown)
        prompt = (ChatMessage("user", text),)
        return _Shown(prompt, prompt, source)
    if flaw := dialogue.flaw.within(turns):
        raise Unfit(flaw)
    last = dialogue.answers[turns - 1]
    history, reply = dialogue.said[:last], dialogue.said[last]
    return _Shown(dialogue.prompt, history, RECORDED, reply, dialogue.answers[: turns - 1])


def _sanitized(texts: Texts) -> bool:
    """True if characters of a text were replaced.  Raises Unfit for a secret."""
    reference, source, dialogue = texts.reference, texts.source, texts.dialogue
    secret = (
        reference.secret
        or dialogue.secret.within(texts.turns)
        or (source.secret if source else None)
    )
    if secret:
        raise Unfit(f"secret: {secret}")
    replaced = dialogue.sanitized.within(texts.turns) is not None
    return replaced or reference.sanitized or (source is not None and source.sanitized)


def without_thought(text: str) -> str:
    """The answer without the thought before it; all of it where no thought was closed."""
    return after_thought(text).lstrip() if THOUGHT_END in text else text


def _thinking(
    history: tuple[ChatMessage, ...], reply: ChatMessage, reasoning: Reasoning
) -> tuple[tuple[ChatMessage, ...], ChatMessage]:
    shown = tuple(
        _without_thought(message) if message.role == "assistant" else message for message in history
    )
    return shown, _without_thought(reply) if reasoning is Reasoning.DROP_ALL else reply


def _without_thought(message: ChatMessage) -> ChatMessage:
    return ChatMessage(message.role, without_thought(message.content))
