"""Turns with their rewards, and the credit that a method gives them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import StrEnum


class CreditError(ValueError):
    """Input that no method can be applied to; the message states expected and actual values."""


class Dropped(StrEnum):
    """Reason that a turn is not trained on."""

    MISSING = "missing"
    """No reward for it, or for a later turn that its return needs: an infrastructure
    fault, never a zero.
    """
    MASKED = "masked"
    """Not trainable, for example because its trajectory ended by an error."""
    VOID = "void"
    """Reward of zero or less after a turn with a positive one."""
    UNIFORM = "uniform"
    """Rewards of the group's last turns are equal."""
    SMALL = "small"
    """Too few trajectories in the group."""
    MISMATCH = "mismatch"
    """Trainer and rollout engine disagree beyond the bounds (MRS)."""
    VETO = "veto"
    """One token is far less likely under the trainer than under the rollout engine."""
    COVERAGE = "coverage"
    """Correct, with little of its time in its own kernels (PRS)."""


REASONS = {
    Dropped.MISSING: (
        "no reward, for it or for a later turn that its return needs, through no fault of the model"
    ),
    Dropped.MASKED: "not trainable: its trajectory ended by an error",
    Dropped.VOID: "reward of zero or less after a turn with a positive one",
    Dropped.UNIFORM: "the trajectories of its prompt end with equal rewards",
    Dropped.SMALL: "too few trajectories of its prompt",
    Dropped.MISMATCH: "trainer and rollout engine disagree beyond the bounds",
    Dropped.VETO: "one token is far less likely under the trainer than under the rollout engine",
    Dropped.COVERAGE: "correct, with little of its time in its own kernels",
}
"""For people."""


LARGEST = 1e100
"""Largest magnitude of a reward: squares of differences, summed over the tokens of a
batch, stay finite.
"""


@dataclass(frozen=True, kw_only=True)
class TokenRatios:
    """Summary of one turn's log ratios log π_train − log π_rollout over its response tokens."""

    log_sum: float
    """Sum over the tokens, natural logarithm."""
    tokens: int
    log_least: float
    """Smallest of the tokens."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of one trajectory, with its measured reward."""

    group: Hashable
    """Prompt (problem) that the trajectory answers."""
    trajectory: Hashable
    """Name of the trajectory, unique within the group."""
    index: int
    """Position in the trajectory, from 1."""
    reward: float | None
    """None: not known through no fault of the candidate.  NaN, infinities and
    magnitudes above LARGEST raise CreditError: one of them makes every advantage of its
    group NaN, as in verl and KernelGYM.
    """
    tokens: int = 1
    """Response tokens."""
    trainable: bool = True
    """Dr. Kernel's `loss_mask`: a turn that is not trainable has reward 0 and is in no baseline."""
    correct: bool = False
    coverage: float | None = None
    """Share of device time in own kernels, 0 to 1."""
    speedup: float | None = None
    ratios: TokenRatios | None = None
    """None: log probabilities were not recorded."""

    def __post_init__(self) -> None:
        if self.reward is not None and not abs(self.reward) <= LARGEST:
            raise CreditError(
                f"{self.trajectory!r}[{self.index}]: expected a finite reward or None, got"
                f" {self.reward} (magnitude at most {LARGEST:g})"
            )
        if self.tokens < 0:
            raise CreditError(
                f"{self.trajectory!r}[{self.index}]: expected no negative tokens, got {self.tokens}"
            )


@dataclass(frozen=True, kw_only=True)
class Credit:
    """Result for one turn."""

    turn: Turn
    score: float | None
    """Value that was compared with the baseline: a return or a reward; None if it is missing."""
    advantage: float | None
    """None for a turn outside every group: leave it out of the batch instead of training with 0."""
    dropped: Dropped | None = None
    """Reason to leave the turn out of the loss.  A turn rejected by MRS, veto or PRS
    keeps its figures.
    """


Trajectory = tuple[Hashable, Hashable]
"""Group and name."""


def by_trajectory(turns: Iterable[Turn]) -> dict[Trajectory, list[Turn]]:
    """Turns of each trajectory in order of their index.  Raises CreditError for a
    position that is taken twice.
    """
    found: dict[Trajectory, list[Turn]] = {}
    for turn in turns:
        found.setdefault((turn.group, turn.trajectory), []).append(turn)
    for (group, name), members in found.items():
        members.sort(key=lambda turn: turn.index)
        positions = [turn.index for turn in members]
        if len(set(positions)) < len(positions):
            raise CreditError(
                f"trajectory {name!r} of {group!r}: expected distinct turn indices, got {positions}"
            )
    return found
