"""BROWSE: runs in numbers: the lines of the list, of comparisons over steps, and of
their JSON and CSV.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.store.browse import runs
from app.store.figures.run_rewards import KeptMean
from app.web import request_context, reward_upkeep


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """A run in numbers."""

    run_id: UUID
    name: str
    model: str | None
    step: int | None
    created_at: datetime
    attempts: int
    correct: int
    faster_than_1: int
    faster_than_1_2: int
    faster_than_1_5: int
    faster_than_2: int
    hacks: int
    passed: int
    geometric_mean: float | None
    reward: float | None
    """Mean reward of a turn, by the service's function, over the latest turns of the
    run's trajectories.
    """
    reward_low: float | None
    reward_high: float | None
    reward_turns: int


def lines(rows: Sequence[runs.RunRow]) -> list[RunLine]:
    """Lines of runs, with the means that are kept or quickly computed (`app.web.reward_upkeep`)."""
    kept, _ = reward_upkeep.means(rows, request_context.settings().reward)
    return [line(row, kept.get(row.run_id)) for row in rows]


def line(row: runs.RunRow, reward: KeptMean | None) -> RunLine:
    """One run in numbers."""
    counts = row.counts
    mean = counts.mean_log_speedup
    return RunLine(
        run_id=row.run_id,
        name=row.name,
        model=row.model,
        step=row.step,
        created_at=row.created_at,
        attempts=counts.attempts,
        correct=counts.correct,
        faster_than_1=counts.faster_than_1,
        faster_than_1_2=counts.faster_than_1_2,
        faster_than_1_5=counts.faster_than_1_5,
        faster_than_2=counts.faster_than_2,
        hacks=counts.hacks,
        passed=counts.passed,
        geometric_mean=None if mean is None else math.exp(mean),
        reward=reward.mean if reward else None,
        reward_low=reward.low if reward else None,
        reward_high=reward.high if reward else None,
        reward_turns=reward.turns if reward else 0,
    )
