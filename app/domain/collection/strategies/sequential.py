"""COLLECT: n samples of k turns with feedback.  Source: Dr. Kernel (arXiv
2602.05885), section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.collection import lines
from app.domain.collection.lines import Setting
from app.domain.collection.strategies.base import at_least
from app.domain.collection.tree import WAIT, Decision, Stop, Tree, best


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of `sequential`."""

    samples: int = 1
    turns: int = 3

    def __post_init__(self) -> None:
        at_least(self, 1, "samples", "turns")


class Sequential:
    """One rollout a sample: a line of turns."""

    options = Options

    def rollouts(self, options: Options) -> int:
        """One for each sample."""
        return options.samples

    def most_attempts(self, options: Options) -> int:
        """Every turn."""
        return options.turns

    def decide(self, tree: Tree, options: Options, setting: Setting) -> Decision:
        """The next turn, or the end of the line; the best turn is picked."""
        line = tree.line(0)
        if reason := lines.end_of(line, options.turns, setting.stops):
            return Decision(
                stop=Stop(reason=reason, picked=tuple(node.key for node in best(line)[:1]))
            )
        following = lines.next_of(line, setting, sample=0)
        return Decision(generate=(following,)) if following else WAIT
