"""COLLECT: evolutionary search on islands, with an archive over measured axes and a
choice among models.

Attempt number t belongs to island t mod `islands` and depends on the attempts before t − `parallel`
alone, so the tree is the same in whatever order attempts end.  Parents are ranked by the lower
confidence bound of a verified speedup; hacks are never parents and never shown.  Shares of
exploration, exploitation and elite follow OpenEvolve; the choice among models is an upper
confidence bound that divides by cost, after ShinkaEvolve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.collection import lines
from app.domain.collection.lines import Setting
from app.domain.collection.stop_reasons import FAULTS, StopReason
from app.domain.collection.strategies.base import at_least
from app.domain.collection.tree import (
    WAIT,
    AttemptResult,
    Decision,
    Generate,
    Node,
    Stop,
    Tree,
    best,
    quality,
)

EXPLORE, EXPLOIT = 0.2, 0.7
"""Shares of parents drawn from all cells alike, and by rank; the rest is the best attempt."""
COVERAGE_BINS = 4
"""Cells of an island along the coverage by the candidate's kernels: a quarter each."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of `islands`."""

    islands: int = 2
    attempts: int = 40
    """Attempts on all islands together."""
    parallel: int = 4
    """Attempts on their way at once."""
    drafts: int = 2
    """First attempts of each island without a parent."""
    migrate_every: int = 10
    """Attempts of an island after which it sees the best attempt of its neighbour."""
    inspirations: int = 1
    """Attempts in the prompt in addition to the parent."""
    cross: float = 0.2
    """Share of attempts that combine two parents."""
    cost_weight: float = 0.5
    """Choice among models: 0 ignores cost, 1 divides the gain by it."""

    def __post_init__(self) -> None:
        at_least(self, 1, "islands", "attempts", "parallel", "drafts", "migrate_every")
        at_least(self, 0, "inspirations", "cross", "cost_weight")


class Islands:
    """One rollout a problem."""

    options = Options

    def rollouts(self, options: Options) -> int:  # noqa: ARG002 (the interface's)
        """One."""
        return 1

    def most_attempts(self, options: Options) -> int:
        """The number of attempts in the options."""
        return options.attempts

    def decide(self, tree: Tree, options: Options, setting: Setting) -> Decision:
        """Every attempt with all predecessors done."""
        done = 0  # attempts 0 … done − 1 have their outcomes
        while str(done) in tree and tree[str(done)].done:
            done += 1
        stop = _stop([tree[str(number)] for number in range(done)], options, setting)
        if stop is not None:
            return Decision(stop=stop) if all(node.done for node in tree) else WAIT
        new = [
            _attempt(
                number,
                [tree[str(each)] for each in range(max(0, number - options.parallel + 1))],
                options,
                setting,
            )
            for number in range(min(done + options.parallel, options.attempts))
            if str(number) not in tree
        ]
        return Decision(generate=tuple(new))


def _stop(seen: Sequence[Node], options: Options, setting: Setting) -> Stop | None:
    """The end, judged after each attempt in the order of their numbers."""
    target = setting.stops.target_speedup
    ranked = best(seen)
    reached = [
        node
        for node in seen
        if target is not None and node.outcome is not None and node.outcome.fast(target)
    ]
    picked = tuple(node.key for node in ranked[:1])
    if reached:
        return Stop(reason=StopReason.TARGET_SPEEDUP, picked=picked)
    if len(seen) < options.attempts:
        return None
    faults = [
        node.outcome.fault
        for node in seen
        if node.outcome is not None and node.outcome.fault in FAULTS
    ]
    if faults and len(faults) == len(seen):
        return Stop(reason=faults[0])
    return Stop(reason=StopReason.MAX_TURNS, picked=picked)


def _attempt(number: int, seen: Sequence[Node], options: Options, setting: Setting) -> Generate:
    key, island = str(number), number % options.islands
    endpoint = choose_model(seen, key, options, setting)
    pool = archive(_visible(number, seen, options))
    if number // options.islands < options.drafts or not pool:
        return Generate(
            key=key, sample=island, round=island, turn=number // options.islands, endpoint=endpoint
        )
    parent = _parent(pool, key, setting)
    others = [node for node in pool if node.key != parent.key]
    cross = bool(others) and setting.draws.uniform(key, "cross") < options.cross
    count = max(int(cross), options.inspirations)
    chosen = {parent.key}
    for place in range(min(count, len(others))):
        left = [node for node in others if node.key not in chosen]
        chosen.add(left[setting.draws.index(key, f"inspiration {place}", len(left))].key)
    shown = lines.chronological(
        [node for node in pool if node.key in chosen and node.key != parent.key]
    )
    return Generate(
        key=key,
        parent=parent.key,
        shown=(*(node.key for node in shown), parent.key),
        operator="cross" if cross else lines.operator_after(parent),
        sample=island,
        turn=number // options.islands,
        round=island,
        endpoint=endpoint,
    )


def archive(nodes: Sequence[Node]) -> list[Node]:
    """The best attempt of every cell, best first.  Axes: share of device time in the candidate's
    kernels, and the number of different kernels (logarithmic).
    """
    cells: dict[tuple[int, int, bool], Node] = {}
    for node in best(nodes):
        outcome = node.outcome
        assert outcome is not None
        coverage = min(COVERAGE_BINS - 1, int((outcome.coverage or 0.0) * COVERAGE_BINS))
        cells.setdefault(
            (coverage, int(math.log2((outcome.kernels or 0) + 1)), outcome.correct), node
        )
    return sorted(cells.values(), key=quality)


def choose_model(seen: Sequence[Node], key: str, options: Options, setting: Setting) -> str:
    """The endpoint with the greatest upper confidence bound of its gain for its
    cost; each one is tried once first.

    A fault is a try that says nothing of the model.  A cost that is not known is
    stored as 0 and taken as the usual.
    """
    if len(setting.endpoints) == 1:
        return setting.endpoints[0]
    done = {name: [node for node in seen if node.endpoint == name] for name in setting.endpoints}
    untried = [name for name in setting.endpoints if not done[name]]
    if untried:
        return untried[setting.draws.index(key, "model", len(untried))]
    judged = {
        name: [each for each in map(_judged, nodes) if each is not None]
        for name, nodes in done.items()
    }
    costs = {name: _mean([each.cost_usd for each in results]) for name, results in judged.items()}
    usual = _mean([cost for cost in costs.values() if cost])

    def bound(name: str) -> float:
        gain = _mean([_gain(each) for each in judged[name]])
        cost = (costs[name] / usual) ** options.cost_weight if costs[name] else 1.0
        return gain / cost + math.sqrt(2 * math.log(len(seen)) / len(done[name]))

    return max(setting.endpoints, key=lambda name: (bound(name), -setting.endpoints.index(name)))


def _judged(node: Node) -> AttemptResult | None:
    """The result of an attempt without a fault."""
    return node.outcome if node.outcome is not None and node.outcome.fault is None else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _gain(result: AttemptResult) -> float:
    """0 for a failure, ½ for a solution, up to 1 with its speedup."""
    if not result.solved:
        return 0.0
    return 0.5 + 0.5 * min(1.0, max(0.0, math.log2(max(result.ci_low or 1.0, 1.0)) / 3))


def _visible(number: int, seen: Sequence[Node], options: Options) -> list[Node]:
    """Attempts of the island, and the best one of its neighbour at the last migration."""
    island = number % options.islands
    own = [node for node in seen if node.round == island]
    last = (
        number // options.islands // options.migrate_every * options.migrate_every * options.islands
    )
    neighbour = [
        node
        for node in seen
        if node.round == (island - 1) % options.islands and int(node.key) < last
    ]
    return own + (best(neighbour)[:1] if options.islands > 1 else [])


def _parent(pool: Sequence[Node], key: str, setting: Setting) -> Node:
    luck = setting.draws.uniform(key, "mode")
    if luck < EXPLORE:
        return pool[setting.draws.index(key, "parent", len(pool))]
    if luck < EXPLORE + EXPLOIT:
        return pool[
            setting.draws.weighted(key, "parent", [1 / (rank + 1) for rank in range(len(pool))])
        ]
    return pool[0]
