"""COLLECT: lines of attempts that follow each other: when a line ends, and the
prompt of its next attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.collection.call import End
from app.domain.collection.draws import Draws
from app.domain.collection.stop_reasons import StopReason
from app.domain.collection.tree import Generate, Node, best, natural
from app.domain.request import RequestError
from app.domain.trajectory import NO_CODE

HISTORIES = ("whole", "window", "best_so_far")
REASONINGS = ("drop", "keep")


@dataclass(frozen=True, kw_only=True)
class Stops:
    """Conditions under which a line ends before its last turn.  Dr. Kernel's control
    flow has none.
    """

    solved: bool = False
    """A correct and clean answer ends the line."""
    target_speedup: float | None = None
    """So does one with at least this lower confidence bound."""
    no_progress: int | None = None
    """So many turns in a row without a better answer."""
    no_code: int | None = None
    """So many answers in a row without code."""
    hack: bool = False
    refused: bool = True
    """A refusal, or an answer cut by the server's content filter."""
    truncated: bool = False
    """An answer cut by the token limit before its code was complete."""

    def __post_init__(self) -> None:
        for name in ("no_progress", "no_code", "target_speedup"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise RequestError(f"{name}: expected more than 0, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class Context:
    """Earlier attempts that stand in the prompt of the next one."""

    history: str = "whole"
    """`whole`, `window` (the last ones), or `best_so_far` (the best one and the last one)."""
    window: int = 4
    """Attempts that `window` shows."""
    reasoning: str = "drop"
    """Whether reasoning that came apart from the answer is shown again: `drop` or `keep`."""

    def __post_init__(self) -> None:
        if self.history not in HISTORIES:
            raise RequestError(
                f"history: expected one of {', '.join(HISTORIES)}, got {self.history!r}"
            )
        if self.reasoning not in REASONINGS:
            raise RequestError(
                f"reasoning: expected one of {', '.join(REASONINGS)}, got {self.reasoning!r}"
            )
        if self.window < 1:
            raise RequestError(f"window: expected at least 1, got {self.window}")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Inputs of every strategy in addition to its options and the tree."""

    draws: Draws
    stops: Stops
    context: Context
    endpoints: tuple[str, ...]
    sample: int = 0
    """Number of the rollout among those of its problem, where the strategy works on
    one sample at a time.
    """


def end_of(line: Sequence[Node], turns: int, stops: Stops) -> StopReason | None:
    """Reason for which the line is over; None where it goes on, or its last attempt
    is on its way.
    """
    if not line or line[-1].outcome is None:
        return None
    last = line[-1].outcome
    if last.fault is not None:
        return last.fault
    reached = (
        (
            stops.target_speedup is not None and last.fast(stops.target_speedup),
            StopReason.TARGET_SPEEDUP,
        ),
        (stops.solved and last.solved, StopReason.SOLVED),
        (stops.hack and last.hack, StopReason.HACK),
        (stops.refused and last.end is End.REFUSED, StopReason.REFUSED),
        (stops.refused and last.end is End.CONTENT_FILTER, StopReason.CONTENT_FILTER),
        (
            stops.truncated and last.end is End.LENGTH and last.status == NO_CODE,
            StopReason.TRUNCATED,
        ),
        (stops.no_code is not None and _without_code(line) >= stops.no_code, StopReason.NO_CODE),
        (
            stops.no_progress is not None and _since_best(line) >= stops.no_progress,
            StopReason.NO_PROGRESS,
        ),
        (len(line) >= turns, StopReason.MAX_TURNS),
    )
    return next((reason for holds, reason in reached if holds), None)


def next_of(
    line: Sequence[Node], setting: Setting, *, sample: int, round_: int = 0
) -> Generate | None:
    """The next attempt of a line; None while its last one is on its way."""
    if line and not line[-1].done:
        return None
    parent = line[-1] if line else None
    return Generate(
        key=f"{sample}.{len(line)}",
        parent=parent.key if parent else None,
        shown=shown(line, setting.context),
        operator=operator_after(parent),
        sample=sample,
        turn=len(line),
        round=round_,
    )


def shown(line: Sequence[Node], context: Context) -> tuple[str, ...]:
    """Attempts of the line that stand in the next prompt, in their order."""
    if context.history == "window":
        line = line[-context.window :]
    elif context.history == "best_so_far" and line:
        chosen = {line[-1].key, *(node.key for node in best(line)[:1])}
        line = [node for node in line if node.key in chosen]
    return tuple(node.key for node in line)


def operator_after(parent: Node | None) -> str:
    """How an attempt relates to its parent."""
    if parent is None:
        return "draft"
    return "improve" if parent.outcome is not None and parent.outcome.correct else "repair"


def chronological(nodes: Sequence[Node]) -> list[Node]:
    """In the order of their keys."""
    return sorted(nodes, key=lambda node: natural(node.key))


def _without_code(line: Sequence[Node]) -> int:
    count = 0
    for node in reversed(line):
        if node.outcome is None or node.outcome.status != NO_CODE:
            break
        count += 1
    return count


def _since_best(line: Sequence[Node]) -> int:
    """Turns since the best attempt; all of them where none has a result that counts."""
    ranked = best(line)
    return len(line) - 1 - ranked[0].turn if ranked else len(line)
