"""COLLECT: beam search: the best attempts so far are continued, in rounds."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.collection import lines
from app.domain.collection.lines import Setting
from app.domain.collection.stop_reasons import FAULTS, StopReason
from app.domain.collection.strategies.base import at_least
from app.domain.collection.tree import WAIT, Decision, Generate, Node, Stop, Tree, best


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of `beam`."""

    width: int = 2
    """Attempts that are continued."""
    branch: int = 2
    """Continuations of each."""
    rounds: int = 3
    """First drafts included."""

    def __post_init__(self) -> None:
        at_least(self, 1, "width", "branch", "rounds")


class Beam:
    """One rollout a problem: a tree, round by round."""

    options = Options

    def rollouts(self, options: Options) -> int:  # noqa: ARG002 (the interface's)
        """One."""
        return 1

    def most_attempts(self, options: Options) -> int:
        """The same number in every round."""
        return options.rounds * options.width * options.branch

    def decide(self, tree: Tree, options: Options, setting: Setting) -> Decision:
        """The next round once the present one is complete; hacks and faults have no children."""
        round_ = max((node.round for node in tree), default=0)
        missing = tuple(
            each for each in _round(tree, round_, options, setting) if each.key not in tree
        )
        if missing:
            return Decision(generate=missing)
        if not all(node.done for node in tree):
            return WAIT
        ranked = best(tree)
        reason = _reason(ranked, tree, setting)
        if reason is None and round_ + 1 >= options.rounds:
            reason = StopReason.MAX_TURNS
        if reason is not None:
            return Decision(
                stop=Stop(reason=reason, picked=tuple(node.key for node in ranked[: options.width]))
            )
        return Decision(generate=_round(tree, round_ + 1, options, setting))


def _reason(ranked: list[Node], tree: Tree, setting: Setting) -> StopReason | None:
    if not ranked:
        faults = [
            node.outcome.fault
            for node in tree
            if node.outcome is not None and node.outcome.fault in FAULTS
        ]
        return faults[0] if len(faults) == len(tree) else None
    head = ranked[0].outcome
    assert head is not None  # only done attempts are ranked
    if setting.stops.target_speedup is not None and head.fast(setting.stops.target_speedup):
        return StopReason.TARGET_SPEEDUP
    return StopReason.SOLVED if setting.stops.solved and head.solved else None


def _round(tree: Tree, round_: int, options: Options, setting: Setting) -> tuple[Generate, ...]:
    """All attempts of a round: children of the best attempts of earlier ones; drafts
    where there are none.
    """
    parents = best(node for node in tree if node.round < round_)[: options.width]
    if not parents:
        drafts = range(options.width * options.branch)
        return tuple(
            Generate(key=f"{round_}.{index}", sample=index, round=round_) for index in drafts
        )
    return tuple(
        Generate(
            key=f"{round_}.{place * options.branch + each}",
            parent=parent.key,
            shown=lines.shown(tree.ancestry(parent.key), setting.context),
            operator=lines.operator_after(parent),
            sample=place * options.branch + each,
            turn=len(tree.ancestry(parent.key)),
            round=round_,
        )
        for place, parent in enumerate(parents)
        for each in range(options.branch)
    )
