"""COLLECT: rounds of samples for a problem until enough of them are good:
Reinforce-Ada's sampling as a scheduler.

A sample is good if one of its turns is correct, clean and fast enough.  Source: Reinforce-Ada
(arXiv 2510.04996), Algorithm 1; the pool's rules are those of app.domain.credit.pools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.collection.lines import Setting
from app.domain.collection.parallel_lines import advance, reason_of
from app.domain.collection.stop_reasons import FAULTS, StopReason
from app.domain.collection.strategies.base import at_least, one_of
from app.domain.collection.tree import Decision, Node, Stop, Tree, best
from app.domain.credit.pools import KEEP, MOST_ROUNDS, ROUND, Exit, Pool, down_sample, suffices


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of `adaptive`; the defaults are Reinforce-Ada's."""

    keep: int = KEEP
    """Samples that are selected in the end: n."""
    per_round: int = ROUND
    """M."""
    rounds: int = MOST_ROUNDS
    """At most: N."""
    mode: str = str(Exit.BALANCED)
    """`balanced`: until half of `keep` are good and half are not;
    `positive_focused`: until one is good.
    """
    speedup: float = 0.0
    """A good sample has at least this lower confidence bound; 0: correct and clean is enough."""
    turns: int = 1

    def __post_init__(self) -> None:
        at_least(self, 1, "keep", "per_round", "rounds", "turns")
        at_least(self, 0, "speedup")
        one_of(self, "mode", tuple(Exit))


class Adaptive:
    """One rollout a problem: rounds of lines."""

    options = Options

    def rollouts(self, options: Options) -> int:  # noqa: ARG002 (the interface's)
        """One."""
        return 1

    def most_attempts(self, options: Options) -> int:
        """Every turn of every round."""
        return options.rounds * options.per_round * options.turns

    def decide(self, tree: Tree, options: Options, setting: Setting) -> Decision:
        """Continue the present round; after it, begin the next one or end the rollout."""
        size = options.per_round
        round_ = max((node.round for node in tree), default=0)
        samples = range(round_ * size, (round_ + 1) * size)
        step = advance(tree, samples, options.turns, setting, round_=round_)
        if not step.over:
            return Decision(generate=step.generate)
        pool = [line for line in map(tree.line, range(samples.stop)) if _counts(line)]
        judged = Pool(rewards=tuple(float(_is_good(line, options.speedup)) for line in pool))
        enough = suffices(judged, Exit(options.mode), options.keep)
        if (
            not enough
            and round_ + 1 < options.rounds
            and (pool or reason_of(step.reasons) not in FAULTS)
        ):
            following = range(samples.stop, samples.stop + size)
            return Decision(
                generate=advance(
                    tree, following, options.turns, setting, round_=round_ + 1
                ).generate
            )
        if not pool:
            return Decision(stop=Stop(reason=reason_of(step.reasons)))
        kept = down_sample(judged, options.keep)
        picked = tuple((best(pool[index]) or pool[index])[0].key for index in kept)
        reason = StopReason.TARGET_SPEEDUP if options.speedup else StopReason.SOLVED
        return Decision(stop=Stop(reason=reason if enough else StopReason.MAX_TURNS, picked=picked))


def _is_good(line: Sequence[Node], speedup: float) -> bool:
    return any(node.outcome is not None and node.outcome.fast(speedup) for node in line)


def _counts(line: Sequence[Node]) -> bool:
    """A line that ended by a fault of the infrastructure is in no pool."""
    return bool(line) and not any(
        node.outcome is None or node.outcome.fault in FAULTS for node in line
    )
