"""COLLECT: several lines of one rollout that continue side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.domain.collection import lines
from app.domain.collection.lines import Setting
from app.domain.collection.stop_reasons import FAULTS, StopReason
from app.domain.collection.tree import Generate, Tree


@dataclass(frozen=True, kw_only=True)
class Step:
    """State of several lines."""

    generate: tuple[Generate, ...]
    reasons: tuple[StopReason, ...]
    """Stop reasons of the lines of attempts that have ended."""
    over: bool
    """True if all are."""


def advance(
    tree: Tree, samples: Iterable[int], turns: int, setting: Setting, *, round_: int = 0
) -> Step:
    """Next turns of the lines that continue."""
    generate, reasons, count = [], [], 0
    for sample in samples:
        count += 1
        line = tree.line(sample)
        reason = lines.end_of(line, turns, setting.stops)
        if reason is not None:
            reasons.append(reason)
        elif following := lines.next_of(line, setting, sample=sample, round_=round_):
            generate.append(following)
    return Step(generate=tuple(generate), reasons=tuple(reasons), over=len(reasons) == count)


def reason_of(reasons: Sequence[StopReason]) -> StopReason:
    """Reason for the end of a rollout, all lines being over: a fault only where
    every line ended by one.
    """
    faults = [reason for reason in reasons if reason in FAULTS]
    if reasons and len(faults) == len(reasons):
        return faults[0]
    reached = (StopReason.TARGET_SPEEDUP, StopReason.SOLVED)
    return next((reason for reason in reached if reason in reasons), StopReason.MAX_TURNS)
