"""BROWSE: two runs problem by problem: which problems became better or worse as far
as the intervals tell.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.domain import intervals
from app.domain.intervals import Interval
from app.store.browse import runs
from app.store.browse.collecting import RunCollection
from app.store.postgres.database import Connection
from app.web import run_metrics
from app.web.run_metrics import ProblemFigures

BETTER, WORSE, SAME, ONE = "better", "worse", "no difference", "only one run"
OUTCOMES = (WORSE, BETTER, SAME, ONE)
SHOWN = 100
"""Lines of the page; the CSV has all."""


@dataclass(frozen=True, kw_only=True)
class ProblemPair:
    """One problem in both runs."""

    problem_id: UUID
    problem: str
    level: int | None
    outcome: str
    """One of OUTCOMES, as the second run stands to the first."""
    because: str
    """`correct` or `speed`: the figure that decided; empty where none did."""
    correct_before: int | None
    attempts_before: int | None
    correct_after: int | None
    attempts_after: int | None
    correct_low: float | None
    correct_high: float | None
    """95 % interval of the difference of the shares correct."""
    best_before: float | None
    best_after: float | None
    speed_low: float | None
    speed_high: float | None
    """95 % interval of the ratio of the geometric-mean speedups."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All problems of two runs."""

    lines: tuple[ProblemPair, ...]
    """Regressions first, then improvements; the clearest first."""
    counts: dict[str, int]


def compare(
    connection: Connection, before: run_metrics.Figures, after: run_metrics.Figures
) -> Comparison:
    """Every problem that either run attempted."""
    keys = before.problems.keys() | after.problems.keys()
    names = runs.named(connection, set(keys))
    lines = [
        _line(key, names[key], before.problems.get(key), after.problems.get(key)) for key in keys
    ]
    counts = Counter(line.outcome for line in lines)
    return Comparison(
        lines=tuple(sorted(lines, key=_rank)), counts={name: counts[name] for name in OUTCOMES}
    )


def differing_settings(
    chosen: Sequence[runs.RunRow], collections: Mapping[UUID, RunCollection]
) -> list[tuple[str, list[str]]]:
    """Setting → its value in each run, where the runs differ; model, training step and the
    specification of the run's collection count as settings.
    """
    rows = [_settings(run, collections.get(run.run_id)) for run in chosen]
    keys = list(dict.fromkeys(key for row in rows for key in row))
    found = [(key, [_setting(row.get(key)) for row in rows]) for key in keys]
    return [(key, values) for key, values in found if len(set(values)) > 1]


def _settings(run: runs.RunRow, collection: RunCollection | None) -> dict[str, object]:
    """Settings of a run; in place of its collection's hash the specification, by dotted keys."""
    found: dict[str, object] = {"model": run.model, "step": run.step, **run.settings}
    if collection is not None:
        found.pop("collection", None)
        found |= _dotted({key: value for key, value in collection.spec.items() if key != "name"})
    return found


def _dotted(values: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in values.items():
        inner = _dotted(value, f"{prefix}{key}.") if isinstance(value, dict) else {}
        found |= inner or {f"{prefix}{key}": value}
    return found


def _setting(value: object) -> str:
    """A setting as text, in the words of JSON; numbers without the last digits, which rounding
    makes.
    """
    if value is None or isinstance(value, str):
        return "–" if value is None else value
    return f"{value:.12g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _line(
    key: UUID, name: runs.ProblemName, old: ProblemFigures | None, new: ProblemFigures | None
) -> ProblemPair:
    correct, speed = _correct(old, new), _speed(old, new)
    outcome, because = _outcome(correct, speed) if old and new else (ONE, "")
    return ProblemPair(
        problem_id=key,
        problem=name.name,
        level=name.level,
        outcome=outcome,
        because=because,
        correct_before=old.correct.count if old else None,
        attempts_before=old.correct.of if old else None,
        correct_after=new.correct.count if new else None,
        attempts_after=new.correct.of if new else None,
        correct_low=correct.low if correct else None,
        correct_high=correct.high if correct else None,
        best_before=old.best if old else None,
        best_after=new.best if new else None,
        speed_low=math.exp(speed.low) if speed else None,
        speed_high=math.exp(speed.high) if speed else None,
    )


def _correct(old: ProblemFigures | None, new: ProblemFigures | None) -> Interval | None:
    if old is None or new is None or not old.correct.of or not new.correct.of:
        return None
    return intervals.share_difference(
        (new.correct.count, new.correct.of), (old.correct.count, old.correct.of)
    )


def _speed(old: ProblemFigures | None, new: ProblemFigures | None) -> Interval | None:
    return intervals.mean_difference(new.logs, old.logs) if old and new else None


def _outcome(correct: Interval | None, speed: Interval | None) -> tuple[str, str]:
    """Correctness decides; speed where correctness does not differ."""
    for because, interval in (("correct", correct), ("speed", speed)):
        if interval is not None and interval.low > 0:
            return BETTER, because
        if interval is not None and interval.high < 0:
            return WORSE, because
    return SAME, ""


def _rank(line: ProblemPair) -> tuple[int, float, str]:
    ends = (
        (line.correct_low, line.correct_high)
        if line.because == "correct"
        else (line.speed_low, line.speed_high)
    )
    low, high = ((end or 0.0) for end in ends)
    if line.because == "speed":
        low, high = math.log(low or 1.0), math.log(high or 1.0)
    distance = {BETTER: -low, WORSE: high}.get(line.outcome, 0.0)
    return OUTCOMES.index(line.outcome), distance, line.problem
