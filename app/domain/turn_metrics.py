"""JUDGE, BROWSE: figures over the turns of trajectories, each with its source.  Pure
arithmetic on outcomes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.domain.metric_samples import MetricSample
from app.domain.metrics import Share, rank

Turns = Sequence[MetricSample]
"""The outcomes of one trajectory, turn by turn."""


def running_best(trajectories: Sequence[Turns], turns: int) -> Iterator[list[MetricSample]]:
    """For turns 0, 1 … `turns` − 1, the best of every trajectory up to that turn: one that stopped
    early keeps its best, so that the denominator does not shrink.  Source: Dr. Kernel
    (`best_by_turn_k`).
    """
    found = [listed[0] for listed in trajectories if listed]
    started = [listed for listed in trajectories if listed]
    for turn in range(turns):
        if turn:
            found = [
                (
                    max(best_so_far, listed[turn], key=rank)
                    if turn < len(listed) and listed[turn].correct
                    else best_so_far
                )
                for best_so_far, listed in zip(found, started, strict=True)
            ]
        yield found


def at_turn(trajectories: Iterable[Turns], turn: int) -> list[MetricSample]:
    """Outcomes of turn `turn`, for the trajectories that have it."""
    return [turns[turn] for turns in trajectories if turn < len(turns)]


def last_turns(trajectories: Iterable[Turns]) -> list[MetricSample]:
    """The last outcome of every trajectory."""
    return [turns[-1] for turns in trajectories if turns]


@dataclass(frozen=True, kw_only=True)
class TurnChanges:
    """Changes from one turn to the next."""

    repaired: Share
    """Correct turns among those that follow a turn that was not."""
    regressed: Share
    """Turns that are not correct among those that follow a correct one."""


def turn_changes(trajectories: Iterable[Turns]) -> TurnChanges:
    """Repair and regression over all trajectories.  Source: Dr. Kernel's `improvement/*`."""
    steps = Counter(
        change
        for turns in trajectories
        for change in pairwise([outcome.correct for outcome in turns])
    )
    return TurnChanges(
        repaired=Share(count=steps[False, True], of=steps[False, True] + steps[False, False]),
        regressed=Share(count=steps[True, False], of=steps[True, False] + steps[True, True]),
    )
