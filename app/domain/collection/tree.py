"""COLLECT: the tree of one rollout.  A node is one attempt: one model call and the
evaluation of its answer.

A node's key, parent and prompt are decided once and never change; only its outcome is added, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from app.domain.collection.call import End
from app.domain.collection.stop_reasons import StopReason
from app.domain.trajectory import NO_CODE
from app.domain.verdict import Label


@dataclass(frozen=True, kw_only=True)
class Generate:
    """Decision to make one more attempt."""

    key: str
    """Unique in its tree, and a function of the node's place alone."""
    parent: str | None = None
    """The attempt that it continues or improves."""
    shown: tuple[str, ...] = ()
    """Attempts with answers and feedback in the prompt, in that order."""
    operator: str = "draft"
    """`draft`, `improve`, `repair`, `explore` or `cross`."""
    sample: int = 0
    """Number of its line."""
    turn: int = 0
    """Attempts before it in its line."""
    round: int = 0
    """Generation, round or island."""
    endpoint: str = ""
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class AttemptResult:
    """Result of an attempt, as far as decisions depend on it.  Fixed when the attempt ends."""

    fault: StopReason | None = None
    """Reason without a result: the endpoint, the evaluator or the context failed."""
    detail: str = ""
    """The budget that was used up."""
    end: End = End.STOP
    status: str | None = None
    """Status of the evaluation, `no_code`, or None with a fault."""
    correct: bool = False
    label: str | None = None
    speedup: float | None = None
    """Credited: None for hacks."""
    ci_low: float | None = None
    """Lower end of its interval."""
    coverage: float | None = None
    reward: float | None = None
    kernels: int | None = None
    """Kernels that the candidate launched, of different names."""
    tokens: int = 0
    """Input and output of its call."""
    cost_usd: float = 0.0

    @property
    def solved(self) -> bool:
        """Correct and clean."""
        return self.correct and self.label == Label.CLEAN

    @property
    def hack(self) -> bool:
        """True if the verdict says so."""
        return self.label == Label.HACK

    def fast(self, speedup: float) -> bool:
        """Solved, and at least this much faster than the reference by the lower
        confidence bound.
        """
        return self.solved and (self.ci_low or 0.0) >= speedup


@dataclass(frozen=True, kw_only=True)
class Node(Generate):
    """An attempt that was decided; `outcome` is None while it is on its way."""

    outcome: AttemptResult | None = None

    @property
    def done(self) -> bool:
        """True if its outcome is known."""
        return self.outcome is not None


@dataclass(frozen=True)
class Tree:
    """All attempts of a rollout, by key."""

    nodes: Mapping[str, Node] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> Tree:
        """The tree of these nodes."""
        return cls({node.key: node for node in nodes})

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, key: str) -> bool:
        return key in self.nodes

    def __getitem__(self, key: str) -> Node:
        return self.nodes[key]

    def line(self, sample: int) -> list[Node]:
        """Attempts of one line, in the order of their turns."""
        return self._lines.get(sample, [])

    @cached_property
    def _lines(self) -> dict[int, list[Node]]:
        found: dict[int, list[Node]] = {}
        for node in sorted(self, key=lambda node: node.turn):
            found.setdefault(node.sample, []).append(node)
        return found

    def ancestry(self, key: str) -> list[Node]:
        """The attempt and those that it continues, the first one first."""
        found: list[Node] = []
        at: str | None = key
        while at is not None:
            found.append(self.nodes[at])
            at = self.nodes[at].parent
        return found[::-1]

    def with_nodes(self, new: Iterable[Node]) -> Tree:
        """The tree with further or replaced nodes."""
        return Tree({**self.nodes, **{node.key: node for node in new}})


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Decision to end the rollout."""

    reason: StopReason
    detail: str = ""
    picked: tuple[str, ...] = ()
    """Attempts that the strategy selects, best first."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Attempts to make now, or the end; neither while attempts on their way have to
    be waited for.
    """

    generate: tuple[Generate, ...] = ()
    stop: Stop | None = None


WAIT = Decision()


def quality(node: Node) -> tuple[Any, ...]:
    """Sorting key, best first: solved, suspect but correct, then those that failed later; among
    correct ones the lower confidence bound of the speedup; then the cheaper one, then the key.
    """
    outcome = node.outcome or AttemptResult()
    rank = _RANKS.get(outcome.status or "", 9)
    if outcome.correct:
        rank = 0 if outcome.solved else 8 if outcome.hack else 1
    bound = outcome.ci_low if outcome.ci_low is not None else outcome.speedup
    return (rank, -(bound or 0.0), outcome.cost_usd, outcome.tokens, natural(node.key))


_RANKS = {
    "incorrect": 2,
    "runtime_error": 3,
    "timeout": 4,
    "out_of_memory": 4,
    "crashed": 5,
    "compile_error": 6,
    NO_CODE: 7,
}
"""Nearer to a correct answer first."""


def natural(key: str) -> tuple[int, ...]:
    """Numbers of a key, so that `0.10` follows `0.9`."""
    return tuple(int(part) for part in key.split("."))


def best(nodes: Iterable[Node]) -> list[Node]:
    """Attempts with a result that were no hacks, best first."""
    judged = (
        node
        for node in nodes
        if node.outcome and node.outcome.fault is None and not node.outcome.hack
    )
    return sorted(judged, key=quality)
