"""COLLECT: sequential test-time scaling: all attempts are kept, and only some of
them stand in the next prompt.

Source: Dr. Kernel (arXiv 2602.05885), section 4.3, and the code beside it
(vllm_async_engine_multi_iter.py), which differ.  The code runs `turns` turns in one context; each
further iteration begins with `window` selected turns and adds `turns` − `window` new ones.  The
paper shows at every turn the `window` best attempts so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.domain.collection import lines
from app.domain.collection.lines import Setting
from app.domain.collection.strategies.base import at_least, one_of
from app.domain.collection.tree import WAIT, Decision, Node, Stop, Tree, best
from app.domain.request import RequestError

SELECTIONS = ("last", "best", "top")
METRICS = ("reward", "speedup", "coverage", "coverage_reward")
PICKS = ("best", "last")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of `windowed`; the defaults are those of Dr. Kernel's evaluation
    script: 14 turns in all.
    """

    samples: int = 1
    turns: int = 5
    """Turns of the first context; with `top`, all turns."""
    iterations: int = 10
    window: int = 4
    """Selected turns: the code's `remain_turns`, the paper's w."""
    selection: str = "best"
    """`last`: the last ones (code); `best`: the consecutive ones with the greatest sum (code);
    `top`: the best ones, wherever they are (paper).
    """
    metric: str = "reward"
    """`coverage_reward` compares sums of coverage, then of reward."""
    pick: str = "best"
    """`last` is the paper's STTS, `best` its STTS†."""

    def __post_init__(self) -> None:
        at_least(self, 1, "samples", "turns", "iterations", "window")
        one_of(self, "selection", SELECTIONS)
        one_of(self, "metric", METRICS)
        one_of(self, "pick", PICKS)
        if self.selection != "top" and self.iterations > 1 and self.window >= self.turns:
            raise RequestError(
                f"window: expected less than turns ({self.turns}), got {self.window}: no turn would"
                " be new"
            )

    @property
    def total(self) -> int:
        """Turns in all."""
        if self.selection == "top":
            return self.turns
        return self.turns + (self.iterations - 1) * (self.turns - self.window)


class Windowed:
    """One rollout a sample: a line of turns with chosen contexts."""

    options = Options

    def rollouts(self, options: Options) -> int:
        """One for each sample."""
        return options.samples

    def most_attempts(self, options: Options) -> int:
        """Every turn."""
        return options.total

    def decide(self, tree: Tree, options: Options, setting: Setting) -> Decision:
        """The next turn with its window, or the end of the line."""
        line = tree.line(0)
        if reason := lines.end_of(line, options.total, setting.stops):
            picked = best(line)[:1] if options.pick == "best" else line[-1:]
            return Decision(stop=Stop(reason=reason, picked=tuple(node.key for node in picked)))
        following = lines.next_of(line, setting, sample=0)
        if following is None:
            return WAIT
        chosen = tuple(node.key for node in context(line, options))
        return Decision(generate=(replace(following, shown=chosen),))


def context(line: Sequence[Node], options: Options) -> list[Node]:
    """Turns that the next prompt shows."""
    if options.selection == "top":
        return top(line, options)
    if len(line) < options.turns:
        return list(line)
    new = options.turns - options.window
    start = options.turns + (len(line) - options.turns) // new * new
    select = consecutive if options.selection == "best" else last
    return select(line[:start], options) + list(line[start:])


def last(line: Sequence[Node], options: Options) -> list[Node]:
    """The last turns."""
    return list(line[-options.window :])


def consecutive(line: Sequence[Node], options: Options) -> list[Node]:
    """The consecutive turns with the greatest sum of the metric; the earliest of equals."""
    width = min(options.window, len(line))
    values = [_metric(node, options.metric) for node in line]
    sums = [
        tuple(map(sum, zip(*values[at : at + width], strict=True)))
        for at in range(len(line) - width + 1)
    ]
    start = max(range(len(sums)), key=lambda at: (sums[at], -at))
    return list(line[start : start + width])


def top(line: Sequence[Node], options: Options) -> list[Node]:
    """The best turns by the metric, in their order; the earliest of equals."""
    ranked = sorted(
        line, key=lambda node: (tuple(-value for value in _metric(node, options.metric)), node.turn)
    )
    return sorted(ranked[: options.window], key=lambda node: node.turn)


def _metric(node: Node, name: str) -> tuple[float, ...]:
    outcome = node.outcome
    assert outcome is not None  # a line goes on when its last attempt is done
    reward, coverage = outcome.reward or 0.0, outcome.coverage or 0.0
    if name == "coverage_reward":
        return (coverage, reward)
    return ({"reward": reward, "speedup": outcome.speedup or 0.0, "coverage": coverage}[name],)
