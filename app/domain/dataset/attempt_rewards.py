"""EXPORT: rewards and returns of attempts, by name."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain import metrics, reward
from app.domain.credit.returns import returns_to_go
from app.domain.dataset.attempt import Attempt, Cell, measures
from app.domain.evaluation import Status
from app.domain.trajectory import NO_CODE

KEVIN = "kevin"
SCORES = (KEVIN, *reward.REWARDS)
"""Every reward that rows have, by name."""


def scores(attempt: Attempt) -> dict[str, float]:
    """Each reward of one turn, with its standard options.  An answer without code has those of a
    failure, as everywhere else: 0 of most, and the penalties of KernelGYM's.
    """
    if attempt.status == NO_CODE:
        return {KEVIN: 0.0} | reward.every(reward.WITHOUT_CODE)
    found = measures(attempt)
    return {KEVIN: kevin(attempt)} | {
        name: each(found, reward.STANDARD) for name, each in reward.REWARDS.items()
    }


def earned(turn: Attempt, name: str) -> float | None:
    """Reward of a turn by that name; None where the service failed: that is no reward of 0."""
    return None if turn.status == Status.INVALID else scores(turn)[name]


def returns(turns: Sequence[Attempt], gamma: float | None, name: str = KEVIN) -> list[float | None]:
    """Discounted return of every turn of a line by that reward: Σ_{v ≥ t} γ^{v−t} S_v over the
    numbers of turns.

    A turn that is not there, or failed by the service's fault, has no reward: the returns of it and
    of the turns before it are missing, as in `app.domain.credit`.  So are returns that would add
    credited speedups of two cells.  `gamma` None: 0.4 for Kevin's score, 1 for all others.
    """
    if gamma is None:
        gamma = metrics.KEVIN_GAMMA if name == KEVIN else 1.0
    numbers = [_number(turn, place) for place, turn in enumerate(turns)]
    ends = (turn.last_step if turn.line else turn.last_turn for turn in turns)
    last = max([*numbers, *(end for end in ends if end is not None)], default=-1)
    found: list[float | None] = [None] * (last + 1)
    for number, turn in zip(numbers, turns, strict=True):
        found[number] = earned(turn, name)
    ahead = returns_to_go(found, gamma)
    comparable = _first_comparable(turns) if gamma else 0
    return [ahead[number] if place >= comparable else None for place, number in enumerate(numbers)]


def _number(turn: Attempt, place: int) -> int:
    """Position of a turn in its line, from 0."""
    number = turn.step if turn.line else turn.turn
    return place if number is None else number


def _first_comparable(turns: Sequence[Attempt]) -> int:
    """Index of the first turn such that all credited speedups from it on are of one cell."""
    cell: Cell | None = None
    for place in range(len(turns) - 1, -1, -1):
        if turns[place].succeeded:
            if cell not in (None, turns[place].cell):
                return place + 1
            cell = turns[place].cell
    return 0


def kevin(attempt: Attempt) -> float:
    """Kevin's score of one turn."""
    return metrics.kevin_score(correct=attempt.succeeded, speedup=attempt.speedup)
