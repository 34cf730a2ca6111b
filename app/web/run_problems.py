"""BROWSE: the problems of a run as lines of a table, in an order that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.store.browse import runs
from app.store.postgres.database import Connection
from app.web import request_context, run_metrics


@dataclass(frozen=True, kw_only=True)
class ProblemLine:
    """Results of a run on one problem."""

    problem_id: UUID
    problem: str
    level: int | None
    attempts: int
    correct: int
    correct_share: float
    hacks: int
    best_speedup: float | None
    geometric_mean: float | None


WORST = "worst"
ORDERS: dict[str, tuple[str, Callable[[ProblemLine], Any]]] = {
    WORST: (
        "fewest correct first",
        lambda line: (line.correct_share, line.geometric_mean or 0.0, line.problem),
    ),
    "slowest": (
        "slowest first",
        lambda line: (line.geometric_mean or 0.0, line.correct_share, line.problem),
    ),
    "hacks": ("most hacks first", lambda line: (-line.hacks, line.correct_share, line.problem)),
    "fastest": ("best speedup first", lambda line: (-(line.best_speedup or 0.0), line.problem)),
    "name": ("by name", lambda line: line.problem),
}
"""Name of an order → its words and its key."""


def asked() -> str:
    """The order that the request names; the worst first by default."""
    return request_context.choice_argument("sort", ORDERS, WORST)


def lines(connection: Connection, figures: run_metrics.Figures) -> list[ProblemLine]:
    """One line for every problem that the run attempted."""
    names = runs.named(connection, set(figures.problems))
    return [
        ProblemLine(
            problem_id=problem_id,
            problem=names[problem_id].name,
            level=names[problem_id].level,
            attempts=each.correct.of,
            correct=each.correct.count,
            correct_share=each.correct.value or 0.0,
            hacks=each.hacks,
            best_speedup=each.best,
            geometric_mean=each.geometric_mean,
        )
        for problem_id, each in figures.problems.items()
    ]


def ordered(found: Sequence[ProblemLine], sort: str) -> list[ProblemLine]:
    """The lines in one of ORDERS."""
    return sorted(found, key=ORDERS[sort][1])
