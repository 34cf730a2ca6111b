"""BROWSE: the figures of a run, from `app.domain.metrics` over its attempts; kept as
long as nothing changes.

An attempt that is no hack and was right in every call is correct.  Thresholds are held with
`>` and every share is of all attempts, or of all trajectories where a trajectory is
represented by one of its turns.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean
from uuid import UUID

from app.domain import intervals, metric_samples, metrics, turn_metrics
from app.domain.intervals import Interval
from app.domain.metric_samples import MetricSample
from app.domain.metrics import Share
from app.domain.verdict import Label, is_credited
from app.store.browse import runs
from app.store.postgres.database import Connection

THRESHOLDS = (0.0, 1.0, 1.2, 1.5, 2.0)
"""Values of p in fast_p: 0 counts correct attempts; KernelBench has 1, 1.5 and 2."""
OPERATOR = metric_samples.Operator.MORE
CURVE_TURNS = 20
"""Turns that the curves go to."""
ECDF_POINTS = 200
"""Points of a distribution that are drawn, about: more cannot be told apart."""
MOST_SAMPLES = 64
"""Largest k of pass@k."""
LABELS = {str(label): label for label in Label}
_JUDGED = attrgetter("passed", "label")
KEPT = 64
"""Number of runs with figures kept in memory."""


@dataclass(frozen=True, kw_only=True)
class MetricRow:
    """One way of counting: a label and fast_p for each threshold."""

    name: str
    of: int
    shares: tuple[Share, ...]
    """One for each of THRESHOLDS."""


@dataclass(frozen=True, kw_only=True)
class LevelLine:
    """A level of the per-level table."""

    level: int | None
    problems: int
    shares: tuple[Share, ...]
    hacks: Share
    geometric_mean: float | None


@dataclass(frozen=True, kw_only=True)
class ProblemFigures:
    """Results of a run on one problem."""

    correct: Share
    hacks: int
    best: float | None
    """Best credited speedup."""
    logs: tuple[float, ...]
    """Logarithms of the credited speedups."""

    @property
    def geometric_mean(self) -> float | None:
        """Geometric mean of the credited speedups."""
        return math.exp(fmean(self.logs)) if self.logs else None


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Everything that the page of a run shows."""

    lines: tuple[MetricRow, ...]
    hack_rates: metrics.HackRates
    geometric_mean: metrics.Centre
    geometric_interval: Interval | None
    """Interval from the spread between problems: attempts on one problem are alike."""
    levels: tuple[LevelLine, ...]
    best_by_turn: tuple[tuple[int, Share, Share], ...]
    """Turn, share correct, share faster than 1×, of the best up to that turn, over
    all trajectories.
    """
    at_turn: tuple[tuple[int, Share, Share], ...]
    """Figures of the results of that turn, over the trajectories that have it."""
    ecdf: tuple[tuple[float, float], ...]
    """Speedup, share of credited attempts at most that fast."""
    changes: turn_metrics.TurnChanges
    problems: Mapping[UUID, ProblemFigures]
    pass_at: tuple[tuple[int, metrics.Estimate, metrics.Estimate], ...]
    """k, pass@k, fast_1@k; a sample is a trajectory's best turn."""
    best_at: tuple[tuple[int, metrics.Estimate], ...]
    """n, expected best speedup of n trajectories."""


_kept: OrderedDict[tuple[UUID, tuple[int, ...]], Figures] = OrderedDict()
_lock = threading.Lock()


def figures(connection: Connection, run_id: UUID) -> Figures:
    """The figures of a run, computed once for every state of its counts."""
    key = (run_id, runs.revision(connection, [run_id]))
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    found = compute(runs.trajectories(connection, run_id), runs.levels(connection))
    with _lock:
        _kept[key] = found
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return found


def compute(
    trajectories: Sequence[Sequence[runs.RunAttempt]], levels: Mapping[UUID, int | None]
) -> Figures:
    """Every figure from scratch."""
    turns = _outcomes(trajectories)
    every = [one for listed in turns for one in listed]
    attempts = [attempt for listed in trajectories for attempt in listed]
    longest = min(max((len(listed) for listed in turns), default=0), CURVE_TURNS)
    speedups = sorted(one.speedup for one in every if one.speedup is not None)
    samples = [metrics.best(listed) for listed in turns if listed]
    problems = _by_problem(every, attempts)
    return Figures(
        lines=(
            _line("every attempt", every),
            _line("last turn of each trajectory", turn_metrics.last_turns(turns)),
            _line("best turn of each trajectory", samples),
        ),
        hack_rates=_hack_rates(attempts),
        geometric_mean=metrics.geometric_mean(every),
        geometric_interval=_geometric_interval(problems),
        levels=tuple(_by_level(trajectories, turns, levels)),
        best_by_turn=tuple(
            _curve(best, turn)
            for turn, best in enumerate(turn_metrics.running_best(turns, longest))
        ),
        at_turn=tuple(_curve(turn_metrics.at_turn(turns, turn), turn) for turn in range(longest)),
        ecdf=_ecdf(speedups),
        changes=turn_metrics.turn_changes(turns),
        problems=problems,
        pass_at=tuple(
            (k, metrics.pass_at_k(samples, k), metrics.fast_p_at_k(samples, 1.0, k))
            for k in _ks(samples)
        ),
        best_at=tuple((k, metrics.best_at_k(samples, k)) for k in _ks(samples)),
    )


def _outcomes(trajectories: Sequence[Sequence[runs.RunAttempt]]) -> list[list[MetricSample]]:
    """Attempts as the figures see them: hacks are not correct and have no speedup.  Attempts
    that came to nothing share one object per trajectory, whose attempts are on one problem:
    there may be tens of thousands.
    """
    rule: dict[tuple[bool, str | None], bool] = {}
    found = []
    for listed in trajectories:
        problem = str(listed[0].problem_id) if listed else ""
        nothing = MetricSample(problem=problem, correct=False)
        outcomes = []
        for attempt in listed:
            kind = (attempt.passed, attempt.label)
            if kind not in rule:
                rule[kind] = is_credited(correct=attempt.passed, label=attempt.label)
            outcomes.append(
                MetricSample(problem=problem, correct=True, speedup=attempt.speedup)
                if rule[kind]
                else nothing
            )
        found.append(outcomes)
    return found


def _geometric_interval(problems: Mapping[UUID, ProblemFigures]) -> Interval | None:
    """95 % interval of the geometric mean over correct attempts, by problems; None
    where there are fewer than two.
    """
    sums = {
        str(problem): (math.fsum(each.logs), float(len(each.logs)))
        for problem, each in problems.items()
        if each.logs
    }
    found = intervals.clustered_ratio(sums)
    return found and Interval(low=math.exp(found.low), high=math.exp(found.high))


def _line(name: str, outcomes: Sequence[MetricSample]) -> MetricRow:
    return MetricRow(
        name=name, of=len(outcomes), shares=metrics.fast_ps(outcomes, THRESHOLDS, operator=OPERATOR)
    )


def _hack_rates(attempts: Sequence[runs.RunAttempt]) -> metrics.HackRates:
    counted = Counter(map(_JUDGED, attempts))
    return metrics.hack_rates(
        Counter({(passed, label and LABELS[label]): n for (passed, label), n in counted.items()})
    )


def _curve(outcomes: Sequence[MetricSample], turn: int) -> tuple[int, Share, Share]:
    correct, fast = metrics.fast_ps(outcomes, (0.0, 1.0), operator=OPERATOR)
    return turn, correct, fast


def _by_level(
    trajectories: Sequence[Sequence[runs.RunAttempt]],
    turns: Sequence[Sequence[MetricSample]],
    levels: Mapping[UUID, int | None],
) -> list[LevelLine]:
    grouped: dict[int | None, list[tuple[Sequence[runs.RunAttempt], Sequence[MetricSample]]]] = {}
    for listed, outcomes in zip(trajectories, turns, strict=True):
        if listed:
            grouped.setdefault(levels.get(listed[0].problem_id), []).append((listed, outcomes))
    return [
        _level(
            level,
            [one for listed, _ in pairs for one in listed],
            [one for _, each in pairs for one in each],
        )
        for level, pairs in sorted(
            grouped.items(), key=lambda item: (item[0] is None, item[0] or 0)
        )
    ]


def _level(
    level: int | None, attempts: Sequence[runs.RunAttempt], outcomes: Sequence[MetricSample]
) -> LevelLine:
    return LevelLine(
        level=level,
        problems=len({one.problem for one in outcomes}),
        shares=_line("", outcomes).shares,
        hacks=_hack_rates(attempts).of_attempts,
        geometric_mean=metrics.geometric_mean(outcomes).value,
    )


def _ecdf(ordered: Sequence[float]) -> tuple[tuple[float, float], ...]:
    step = max(1, len(ordered) // ECDF_POINTS)
    places = [*range(0, len(ordered), step), len(ordered) - 1] if ordered else []
    return tuple((ordered[place], (place + 1) / len(ordered)) for place in dict.fromkeys(places))


def _by_problem(
    outcomes: Sequence[MetricSample], attempts: Sequence[runs.RunAttempt]
) -> dict[UUID, ProblemFigures]:
    hacks = Counter(attempt.problem_id for attempt in attempts if attempt.label == Label.HACK)
    return {
        UUID(name): _problem(each, hacks[UUID(name)])
        for name, each in metrics.by_problem(outcomes).items()
    }


def _problem(each: Sequence[MetricSample], hacks: int) -> ProblemFigures:
    speedups = [one.speedup for one in each if one.speedup is not None]
    return ProblemFigures(
        correct=metrics.fast_ps(each, (0.0,))[0],
        hacks=hacks,
        best=max(speedups, default=None),
        logs=tuple(math.log(speedup) for speedup in speedups),
    )


def _ks(samples: Sequence[MetricSample]) -> list[int]:
    """1, 2, 4 … up to the number of samples that most problems have, at most MOST_SAMPLES."""
    sizes = sorted(len(each) for each in metrics.by_problem(samples).values())
    most = min(sizes[len(sizes) // 2], MOST_SAMPLES) if sizes else 0
    return [k for k in (2**power for power in range(most.bit_length())) if k <= most]
