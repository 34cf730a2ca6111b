"""ENQUEUE: a rollout: a prompt and an answer that a trainer has scored through one of its hooks,
with all that the trainer says of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from app.domain.backend import DEFAULT_BACKEND
from app.domain.job import JobOptions, Priority
from app.domain.problem import Problem, adhoc_name
from app.domain.request import RequestError, check_name
from app.domain.source import source_text
from app.domain.trajectory import Message, Run

LONGEST = 20_000
"""Characters of the text of a detail that is no JSON."""
BEYOND = 2**31
"""The first number that a column of numbers does not hold."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Place of an answer in a training.  All of it may be unknown."""

    run: str | None = None
    """Name of the training; None: one a day and trainer."""
    model: str | None = None
    step: int | None = None
    group: str | None = None
    """The samples of one prompt in one step."""
    sample: int | None = None
    """Number in its group, from 0."""

    def __post_init__(self) -> None:
        for name in ("run", "model", "group"):
            check_name(name, getattr(self, name) or "")
        for name in ("step", "sample"):
            if not -BEYOND <= (getattr(self, name) or 0) < BEYOND:
                raise RequestError(
                    f"{name}: expected a number of 32 bits, got {getattr(self, name)}"
                )

    def campaign(self, trainer: str, today: str | None = None) -> Run:
        """The run that it is stored in: one for every step, so that steps can be
        compared.  `model` unites them.
        """
        name = self.run or f"{trainer} {today or datetime.now(UTC).date().isoformat()}"
        if self.step is None:
            return Run(name=name, model=self.model, settings={"trainer": trainer})
        settings: dict[str, object] = {"trainer": trainer, "training": name}
        return Run(
            name=f"{name} step {self.step}",
            model=self.model or name,
            settings=settings,
            step=self.step,
        )

    def or_else(self, other: Place) -> Place:
        """Fields known here, and those of `other` for the rest."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return replace(other, **known)

    @property
    def label(self) -> str | None:
        """`group/sample`, as far as they are known."""
        parts = [str(one) for one in (self.group, self.sample) if one is not None]
        return "/".join(parts) or None


UNKNOWN = Place()
"""A place without any known coordinates."""


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """An answer to be evaluated and stored with its prompt."""

    answer: str
    candidate: bytes
    run: Run
    problem_id: UUID | None = None
    """Id of a stored problem; where it is not stored, or another one by content,
    `problem` counts.
    """
    problem: Problem | None = None
    messages: tuple[Message, ...] = ()
    """The prompt."""
    backend: str = DEFAULT_BACKEND
    device_class: str = "cpu"
    device: str | None = None
    label: str | None = None
    claims: Mapping[str, Any] = field(default_factory=dict)
    """Everything else, as JSON."""
    options: JobOptions = field(default_factory=JobOptions)
    priority: str = Priority.NORMAL
    repeatable: bool = False
    """The sender asks again after an error: the same answer of the same run and
    label is stored once.
    """

    def __post_init__(self) -> None:
        if self.problem_id is None and self.problem is None:
            raise RequestError("expected the id of a stored problem, or a reference, got neither")


def problem_of(reference: str | None, entry_point: str | None) -> Problem | None:
    """A problem that is known by its reference alone; None without one."""
    if reference is None:
        return None
    data, name = source_text.encode(reference), entry_point or "Model"
    return Problem(name=adhoc_name(data, name), reference=data, entry_point=name)


def messages_of(prompt: Any) -> tuple[Message, ...]:
    """A prompt as messages: of messages themselves, or of a text, which is the
    user's.  Raises RequestError.
    """
    if prompt is None or prompt == "":
        return ()
    if isinstance(prompt, str):
        return (Message(role="user", content=prompt),)
    try:
        return tuple(
            Message(role=str(one["role"]), content=_text(one["content"])) for one in prompt
        )
    except (TypeError, KeyError) as error:
        raise RequestError(
            f"prompt: expected text, or messages with role and content, got {prompt!r:.80}"
        ) from error


def as_json(value: Any) -> Any:
    """The value as JSON can hold it: arrays as lists, NaN and infinities as null,
    everything else as text.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        return {str(name): as_json(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_json(one) for one in value]
    if callable(listed := getattr(value, "tolist", None)):  # numpy, torch
        return as_json(listed())
    return str(value)[:LONGEST]


def _text(content: Any) -> str:
    """Text of a message; of content in parts, the text of its text parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    raise RequestError(f"prompt: expected content of text, got {type(content).__name__}")
