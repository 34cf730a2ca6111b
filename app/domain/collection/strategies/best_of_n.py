"""COLLECT: n samples, of which the best is picked: by verdict, then by the lower
confidence bound of its speedup.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.collection.lines import Setting
from app.domain.collection.parallel_lines import advance, reason_of
from app.domain.collection.strategies.base import at_least
from app.domain.collection.tree import Decision, Stop, Tree, best


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of `best_of_n`."""

    n: int = 8
    turns: int = 1
    """Turns of each sample."""

    def __post_init__(self) -> None:
        at_least(self, 1, "n", "turns")


class BestOfN:
    """One rollout a problem: n lines."""

    options = Options

    def rollouts(self, options: Options) -> int:  # noqa: ARG002 (the interface's)
        """One."""
        return 1

    def most_attempts(self, options: Options) -> int:
        """Every turn of every sample."""
        return options.n * options.turns

    def decide(self, tree: Tree, options: Options, setting: Setting) -> Decision:
        """All samples continue independently; the rollout ends when all have ended."""
        step = advance(tree, range(options.n), options.turns, setting)
        if not step.over:
            return Decision(generate=step.generate)
        picked = tuple(node.key for node in best(tree)[:1])
        return Decision(stop=Stop(reason=reason_of(step.reasons), picked=picked))
