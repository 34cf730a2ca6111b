"""Runs, trajectories and turns: a model's attempts on one problem, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

NO_CODE = "no_code"
"""Status of a turn without code in its answer: it has no evaluation, and none of their statuses."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A campaign: which model, which settings, which training step."""

    name: str
    model: str | None = None
    settings: dict[str, object] = field(default_factory=dict)
    """Sampling and harness settings, free-form JSON."""
    step: int | None = None
    """Training step, if the model was being trained."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """One chat message."""

    role: str
    content: str


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One attempt: new messages to the model, its answer, the evaluated candidate."""

    messages: tuple[Message, ...]
    """New messages before the answer (system, user, feedback); the history is the
    turns before this one.
    """
    response: str
    """The model's answer as it came, reasoning included."""
    candidate: str | None
    """Source extracted from the answer; None when there was none."""
    turn_index: int = 0
    """0-based position."""
    job_id: UUID | None = None
    """The job that evaluates the candidate; identical submissions share one."""


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """Turns on one problem, in order."""

    trajectory_id: UUID
    problem_id: UUID
    backend: str
    turns: tuple[Turn, ...]
    run: str | None = None
    label: str | None = None
    """The submitter's own name for it."""
