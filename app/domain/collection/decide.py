"""COLLECT: the next step of a rollout, a pure function of the stored tree.

The same tree has the same decision, in whatever order its attempts ended and however often a
process died between, so resuming is the ordinary path.
"""

from __future__ import annotations

from dataclasses import replace

from app.domain.collection.budgets import NAMES, Amounts, Caps
from app.domain.collection.draws import Draws
from app.domain.collection.lines import Setting
from app.domain.collection.spec import CollectionSpec
from app.domain.collection.stop_reasons import StopReason
from app.domain.collection.tree import WAIT, Decision, Generate, Stop, Tree, best


def decide(spec: CollectionSpec, tree: Tree, spent: Amounts, draws: Draws) -> Decision:
    """Attempts that the rollout makes now, or its end, or neither while it waits for
    attempts on their way.

    `spent`: by the rollout so far.
    """
    refused = next(
        (node.outcome for node in tree if node.outcome and node.outcome.fault is StopReason.BUDGET),
        None,
    )
    if refused is not None:
        return _ended(tree, _by_budget(tree, refused.detail))
    setting = Setting(draws=draws, stops=spec.stops, context=spec.context, endpoints=spec.models)
    decision = spec.growth.decide(tree, spec.strategy_options, setting)
    if decision.stop is not None:
        return _ended(tree, decision.stop)
    exhausted = used_up(spec.budgets.rollout, spent)
    if (
        exhausted is not None
    ):  # after the strategy: an end that used the budget up exactly is no end by the budget
        return _ended(tree, _by_budget(tree, f"rollout: {exhausted}"))
    return Decision(
        generate=tuple(
            _complete(each, spec, draws) for each in decision.generate if each.key not in tree
        )
    )


def used_up(caps: Caps, spent: Amounts) -> str | None:
    """The first quantity of which nothing is left."""
    for name in NAMES:
        cap = getattr(caps, name)
        if cap is not None and getattr(spent, name) >= cap:
            return name
    return None


def _ended(tree: Tree, stop: Stop) -> Decision:
    """The end, once nothing is on its way."""
    return Decision(stop=stop) if all(node.done for node in tree) else WAIT


def _by_budget(tree: Tree, detail: str) -> Stop:
    """The end by a budget: of the rollout, or one that refused an attempt."""
    reason = StopReason.MAX_TOKENS if detail == "rollout: tokens" else StopReason.BUDGET
    return Stop(reason=reason, detail=detail, picked=tuple(node.key for node in best(tree)[:1]))


def _complete(each: Generate, spec: CollectionSpec, draws: Draws) -> Generate:
    return replace(each, endpoint=each.endpoint or spec.endpoint, seed=draws.seed(each.key))
