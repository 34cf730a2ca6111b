"""COLLECT: reasons for which a rollout stops."""

from __future__ import annotations

from enum import StrEnum


class StopReason(StrEnum):
    """Why a rollout has no further turn."""

    SOLVED = "solved"
    """Correct and clean, and the specification stops there."""
    TARGET_SPEEDUP = "target_speedup"
    """Correct, clean, and the lower bound of the speedup reaches the target."""
    NO_PROGRESS = "no_progress"
    NO_CODE = "no_code"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    CONTENT_FILTER = "content_filter"
    HACK = "hack"
    MAX_TURNS = "max_turns"
    """The strategy made all the turns, samples or rounds that its options allow."""
    MAX_TOKENS = "max_tokens"
    """The rollout's budget of tokens."""
    CONTEXT_OVERFLOW = "context_overflow"
    """The conversation does not fit into the model's context."""
    ENDPOINT_ERROR = "endpoint_error"
    EVALUATOR_ERROR = "evaluator_error"
    BUDGET = "budget"
    """A budget of the collection or of the rollout; `detail` names it."""
    STOPPED = "stopped"
    """On request; `detail` names the user."""


FAULTS = frozenset({StopReason.ENDPOINT_ERROR, StopReason.EVALUATOR_ERROR})
"""Faults of the infrastructure: never scored, and the turn counts in no group's baseline."""

UNFINISHED = FAULTS | {StopReason.BUDGET, StopReason.STOPPED}
"""Reasons that say nothing about the model: such a rollout belongs to no group."""
