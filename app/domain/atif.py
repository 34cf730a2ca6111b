"""EXPORT: trajectories in ATIF 1.7, the agent trajectory interchange format of Harbor, out and in.

Every message is a step with its text as it was sent: system prompts and feedback included, so that
a reader needs no other file.  A problem and the facts that the format has no field for stand in
`extra`.  Field names and their rules are those of Harbor's models (harbor.models.trajectories).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.domain.collection import texts
from app.domain.trajectory import Message

VERSION = "ATIF-v1.7"
VERSIONS = tuple(f"ATIF-v1.{minor}" for minor in range(9))
"""Versions that are read: later ones of the first generation only add optional fields."""
AGENT = "assay"
_SOURCES = {"system": "system", "user": "user", "assistant": "agent", "tool": "user"}
"""Role of a message → source of its step; the role of a tool's message is kept in `extra`."""
_ROLES = {"system": "system", "user": "user", "agent": "assistant"}


class AtifError(ValueError):
    """A document in another form; the message names the place."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer of the model."""

    messages: tuple[Message, ...]
    """New messages before it."""
    response: str
    """The answer, reasoning included."""
    timestamp: str | None = None
    """ISO 8601."""
    model: str | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ATIF's metrics: tokens, cost, token ids, logprobs; None where they
    are not known.
    """
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Dialogue:
    """One trajectory."""

    trajectory_id: str | None
    session_id: str | None
    """Names the run of an agent that it is of: a rollout."""
    model: str | None
    answers: tuple[Answer, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)


def document(dialogue: Dialogue, version: str) -> dict[str, Any]:
    """The trajectory as a JSON object; `version`: of this program."""
    steps: list[dict[str, Any]] = []
    for answer in dialogue.answers:
        steps += [_asked(message) for message in answer.messages]
        steps.append(_answered(answer))
    return _filled(
        {
            "schema_version": VERSION,
            "session_id": dialogue.session_id,
            "trajectory_id": dialogue.trajectory_id,
            "agent": _filled({"name": AGENT, "version": version, "model_name": dialogue.model}),
            "steps": [{"step_id": number, **step} for number, step in enumerate(steps, start=1)],
            "final_metrics": _totals([answer.metrics for answer in dialogue.answers], len(steps)),
            "extra": dict(dialogue.extra),
        }
    )


def dialogue(found: object) -> Dialogue:
    """The trajectory of a document, whichever agent wrote it.  Raises AtifError.

    Copied context and steps without a call of a model are messages; so are observations, as the
    feedback that the next answer is given to.  Messages after the last answer are left out.
    """
    document = _object(found, "document")
    version = document.get("schema_version")
    if version not in VERSIONS:
        raise AtifError(
            f"schema_version: expected one of {VERSIONS[0]} to {VERSIONS[-1]}, got {version!r}"
        )
    agent = _object(document.get("agent"), "agent")
    waiting: list[Message] = []
    answers: list[Answer] = []
    for number, given in enumerate(_list(document.get("steps"), "steps"), start=1):
        where = f"step {number}"
        step = _object(given, where)
        role = _ROLES.get(str(step.get("source")))
        if role is None:
            raise AtifError(
                f"{where}: source: expected one of {', '.join(_ROLES)}, got {step.get('source')!r}"
            )
        text = _text(step.get("message"), f"{where}: message")
        if (
            role == "assistant"
            and not step.get("is_copied_context")
            and step.get("llm_call_count") != 0
        ):
            answers.append(_answer(step, waiting, text, where))
            waiting = []
        else:
            told = _optional(step, "extra", where).get("role") if role == "user" else None
            waiting.append(Message(role="tool" if told == "tool" else role, content=text))
        waiting += _observed(step, where)
    if not answers:
        raise AtifError("steps: expected at least one answer of the source 'agent', got none")
    return Dialogue(
        trajectory_id=_word(document.get("trajectory_id"), "trajectory_id"),
        session_id=_word(document.get("session_id"), "session_id"),
        model=_word(agent.get("model_name"), "agent: model_name"),
        answers=tuple(answers),
        extra=_optional(document, "extra", "document"),
    )


def _asked(message: Message) -> dict[str, Any]:
    step: dict[str, Any] = {
        "source": _SOURCES.get(message.role, "user"),
        "message": message.content,
    }
    if step["source"] == "agent":
        step["is_copied_context"] = True
    elif message.role == "tool":
        step["extra"] = {"role": "tool"}
    return step


def _answered(answer: Answer) -> dict[str, Any]:
    text, reasoning = texts.apart(answer.response)
    return _filled(
        {
            "timestamp": answer.timestamp,
            "source": "agent",
            "model_name": answer.model,
            "message": text,
            "reasoning_content": reasoning,
            "metrics": _filled(answer.metrics),
            "llm_call_count": 1,
            "extra": dict(answer.extra),
        }
    )


def _answer(step: Mapping[str, Any], waiting: Sequence[Message], text: str, where: str) -> Answer:
    reasoning = _word(step.get("reasoning_content"), f"{where}: reasoning_content")
    return Answer(
        messages=tuple(waiting),
        response=texts.as_turn(text, reasoning),
        timestamp=_word(step.get("timestamp"), f"{where}: timestamp"),
        model=_word(step.get("model_name"), f"{where}: model_name"),
        metrics=_optional(step, "metrics", where),
        extra=_optional(step, "extra", where),
    )


def _observed(step: Mapping[str, Any], where: str) -> list[Message]:
    results = _list(
        _optional(step, "observation", where).get("results", []), f"{where}: observation: results"
    )
    told = []
    for number, given in enumerate(results):
        at = f"{where}: observation {number}"
        result = _object(given, at)
        if result.get("content") is not None:
            role = "user" if result.get("source_call_id") is None else "tool"
            told.append(Message(role=role, content=_text(result["content"], at)))
    return told


def _text(given: object, where: str) -> str:
    """A text, or the texts of its parts (since 1.6)."""
    if isinstance(given, list):
        parts = [_object(part, where) for part in given]
        if all(part.get("type") == "text" and isinstance(part.get("text"), str) for part in parts):
            return "\n".join(part["text"] for part in parts)
    if not isinstance(given, str):
        raise AtifError(f"{where}: expected text, got {type(given).__name__} with other content")
    return given


_TOTALS = {
    "total_prompt_tokens": "prompt_tokens",
    "total_completion_tokens": "completion_tokens",
    "total_cached_tokens": "cached_tokens",
    "total_cost_usd": "cost_usd",
}
"""Sum over all steps → field of a step's metrics."""


def _totals(metrics: Sequence[Mapping[str, Any]], steps: int) -> dict[str, Any]:
    """Sums over all steps; a sum with a gap is left out."""
    found: dict[str, Any] = {"total_steps": steps}
    for total, name in _TOTALS.items():
        values = [each.get(name) for each in metrics]
        if all(value is not None for value in values):
            found[total] = sum(values)
    return found


def _filled(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that have a value."""
    return {name: value for name, value in given.items() if value is not None and value != {}}


def _object(given: object, where: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise AtifError(f"{where}: expected an object, got {type(given).__name__}")
    return given


def _optional(given: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    return _object(given.get(name) or {}, f"{where}: {name}")


def _list(given: object, where: str) -> list[Any]:
    if not isinstance(given, list):
        raise AtifError(f"{where}: expected a list, got {type(given).__name__}")
    return given


def _word(given: object, where: str) -> str | None:
    if given is not None and not isinstance(given, str):
        raise AtifError(f"{where}: expected text, got {type(given).__name__}")
    return given
