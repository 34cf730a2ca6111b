"""COLLECT: strategies: how a rollout grows.  One file and one line each."""

from __future__ import annotations

from app.domain.collection.strategies.adaptive import Adaptive
from app.domain.collection.strategies.base import Strategy
from app.domain.collection.strategies.beam import Beam
from app.domain.collection.strategies.best_of_n import BestOfN
from app.domain.collection.strategies.independent import Independent
from app.domain.collection.strategies.islands import Islands
from app.domain.collection.strategies.sequential import Sequential
from app.domain.collection.strategies.windowed import Windowed
from app.domain.request import RequestError

__all__ = ["LINEAR", "STRATEGIES", "Strategy", "find"]

STRATEGIES: dict[str, Strategy] = {
    "independent": Independent(),
    "sequential": Sequential(),
    "windowed": Windowed(),
    "best_of_n": BestOfN(),
    "adaptive": Adaptive(),
    "beam": Beam(),
    "islands": Islands(),
}

LINEAR = ("independent", "sequential", "windowed", "best_of_n", "adaptive")
"""Strategies in which the attempts of one sample of a rollout follow one another; in the others an
attempt may be continued by several.
"""


def find(name: str) -> Strategy:
    """The strategy of that name.  Raises RequestError with the names that there are."""
    if name not in STRATEGIES:
        raise RequestError(f"strategy.name: expected one of {', '.join(STRATEGIES)}, got {name!r}")
    return STRATEGIES[name]
