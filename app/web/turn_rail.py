"""BROWSE: the rail of a trajectory's page: one line for each turn."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain import reward, speedup_ratio
from app.domain.verdict import Label, is_credited
from app.store.browse import trajectory
from app.web import request_context

CHARACTERS_A_TOKEN = 4
"""Characters per token, as in source code; no client sends a token count."""


@dataclass(frozen=True, kw_only=True)
class RailLine:
    """A turn in the rail."""

    turn: trajectory.TurnLine
    comparison: speedup_ratio.Comparison | None
    """Against the last credited turn before it; None where this turn or all before
    it are not credited.
    """
    tokens: int
    """About how many the answer has."""
    is_best: bool
    is_first_hack: bool
    parts: reward.Parts | None
    """Parts of the turn's reward; None where it has none."""

    @property
    def reward(self) -> float | None:
        """Reward of the turn by the service's function."""
        return None if self.parts is None else sum(self.parts.values())


def rail_lines(turns: tuple[trajectory.TurnLine, ...]) -> list[RailLine]:
    """Lines of the rail, one for each turn."""
    credited = [turn.credited for turn in turns if turn.credited is not None]
    best = max(credited, default=None)
    lines: list[RailLine] = []
    before: trajectory.TurnLine | None = None
    hacked = False
    for turn in turns:
        timed = turn.credited is not None
        lines.append(
            RailLine(
                turn=turn,
                comparison=(
                    speedup_ratio.compared(_side(turn), _side(before)) if before and timed else None
                ),
                tokens=round(turn.response_bytes / CHARACTERS_A_TOKEN),
                is_best=best is not None and turn.credited == best,
                is_first_hack=turn.verdict == Label.HACK and not hacked,
                parts=(
                    None
                    if turn.result is None
                    else reward.parts(request_context.settings().reward, turn.result)
                ),
            )
        )
        before = turn if timed else before
        hacked = hacked or turn.verdict == Label.HACK
    return lines


def _side(turn: trajectory.TurnLine) -> speedup_ratio.Side:
    """A turn of one trajectory, which is of one problem."""
    known = (
        turn.speedup is not None
        and turn.speedup_ci_low is not None
        and turn.speedup_ci_high is not None
    )
    speed = (
        speedup_ratio.Speed(
            speedup=turn.speedup or 0.0,
            ci_low=turn.speedup_ci_low or 0.0,
            ci_high=turn.speedup_ci_high or 0.0,
        )
        if known
        else None
    )
    return speedup_ratio.Side(
        speed=speed,
        label=turn.verdict,
        problem=None,
        device_name=turn.device_name or "",
        baseline=turn.baseline or "",
        protocol=turn.protocol or "",
    )


def jumps(rail: list[RailLine]) -> list[tuple[str, int]]:
    """Turns that one looks for first."""
    places = (
        ("first correct", next((line for line in rail if _is_correct(line.turn)), None)),
        ("best", next((line for line in rail if line.is_best), None)),
        ("first hack", next((line for line in rail if line.is_first_hack), None)),
    )
    return [(name, line.turn.turn_index) for name, line in places if line]


def _is_correct(turn: trajectory.TurnLine) -> bool:
    """The rule of the lists: a hack is not correct."""
    return is_credited(correct=bool(turn.correct), label=turn.verdict)
