"""BROWSE: rewards of a run: means of turns and trajectories with intervals, by turn,
and by the reward's parts.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.domain import credit, intervals, reward
from app.domain.intervals import Interval
from app.store.browse import runs
from app.store.figures import reward_samples
from app.store.figures.reward_samples import Sample
from app.store.postgres.database import Connection

KEPT = 200
"""Figures that are kept in memory: runs times rewards."""
TURNS = 20
"""Turns of the curve."""


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean over turns or trajectories."""

    value: float | None
    of: int
    interval: Interval | None
    """95 %, from the spread between problems; None with fewer than two problems."""


@dataclass(frozen=True, kw_only=True)
class Rewards:
    """Rewards of one run by one function.  A trajectory is a line of attempts here
    (app.store.trajectory.attempt_lines): a collection's sample, whatever its prompts show.
    """

    turn: Mean
    trajectory: Mean
    """Sum over a trajectory's turns (its return, γ = 1)."""
    best: Mean
    """Best turn of each trajectory."""
    last: Mean
    """Last turn of each trajectory."""
    by_turn: tuple[tuple[int, Mean], ...]
    parts: tuple[tuple[str, float, int], ...]
    """Part of the reward, its mean over all turns, and the turns that have it."""
    turns: int
    unrewarded: int
    """Turns without a reward: infrastructure faults and invalid problems."""
    more: bool
    """True if the run has more turns than were read."""


_kept: OrderedDict[tuple[UUID, tuple[int, ...], str], Rewards] = OrderedDict()
_lock = threading.Lock()


def of_run(connection: Connection, run_id: UUID, name: str) -> Rewards:
    """Rewards of a run, computed once for every state of its counts."""
    key = (run_id, runs.revision(connection, [run_id]), name)
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    found = compute(*reward_samples.latest(connection, run_id), name)
    with _lock:
        _kept[key] = found
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return found


def compute(samples: Sequence[Sample], more: bool, name: str) -> Rewards:
    """The figures from scratch."""
    scored = [(sample, reward.parts(name, sample.result)) for sample in samples]
    values = [(sample, sum(parts.values())) for sample, parts in scored if parts is not None]
    lines: defaultdict[tuple[UUID, str], list[float | None]] = defaultdict(list)
    for sample, parts in sorted(scored, key=lambda each: each[0].step):
        lines[sample.problem_id, sample.line].append(None if parts is None else sum(parts.values()))
    whole = [(problem, each) for (problem, _), each in lines.items()]
    return Rewards(
        turn=mean([(sample.problem_id, value) for sample, value in values]),
        trajectory=mean([(problem, credit.returns_to_go(each)[0]) for problem, each in whole]),
        best=mean(
            [
                (problem, max((one for one in each if one is not None), default=None))
                for problem, each in whole
            ]
        ),
        last=mean([(problem, each[-1]) for problem, each in whole]),
        by_turn=tuple(
            (
                turn,
                mean(
                    [(sample.problem_id, value) for sample, value in values if sample.step == turn]
                ),
            )
            for turn in sorted({sample.step for sample, _ in values})[:TURNS]
        ),
        parts=_parts([parts for _, parts in scored if parts is not None]),
        turns=len(samples),
        unrewarded=len(samples) - len(values),
        more=more,
    )


def mean(values: Iterable[tuple[UUID, float | None]]) -> Mean:
    """Mean of values of problems; None is left out."""
    listed: defaultdict[UUID, list[float]] = defaultdict(list)
    for problem, value in values:
        if value is not None:
            listed[problem].append(value)
    sums = {str(problem): (math.fsum(each), float(len(each))) for problem, each in listed.items()}
    of = sum(len(each) for each in listed.values())
    total = math.fsum(above for above, _ in sums.values())
    return Mean(value=total / of if of else None, of=of, interval=intervals.clustered_ratio(sums))


def _parts(listed: Sequence[reward.Parts]) -> tuple[tuple[str, float, int], ...]:
    names = dict.fromkeys(name for parts in listed for name in parts)
    return tuple(
        (
            name,
            sum(parts.get(name, 0.0) for parts in listed) / len(listed),
            sum(name in parts for parts in listed),
        )
        for name in names
    )
