"""BROWSE: one turn of a trajectory against another, as the request asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from werkzeug.exceptions import BadRequest

from app.domain import speedup_ratio
from app.store.browse import trajectory
from app.web import evaluation_diff, request_context, source_view


@dataclass(frozen=True, kw_only=True)
class DiffView:
    """A turn against another."""

    other: trajectory.TurnPage
    why: str
    """Reason for the choice of the other, in words."""
    edits: source_view.Diff
    figures: list[evaluation_diff.Figure]
    kernels: list[evaluation_diff.KernelChange]


def against(found: trajectory.TrajectoryPage, at: int) -> tuple[int | None, str]:
    """Turn to compare with, and the reason; None where no other turn has code."""
    asked = request_context.argument("against") or "previous"
    coded = [turn for turn in found.turns if turn.job_id is not None and turn.turn_index != at]
    if asked == "previous":
        earlier = [turn.turn_index for turn in coded if turn.turn_index < at]
        return (earlier[-1], "the last turn before it that has code") if earlier else (None, "")
    if asked == "best":
        credited = [turn for turn in coded if turn.credited is not None]
        best = max(credited, key=lambda turn: turn.credited or 0.0, default=None)
        return (best.turn_index, "the best of the other turns") if best else (None, "")
    known = {str(turn.turn_index): turn.turn_index for turn in coded}
    if asked not in known:
        raise BadRequest(
            "against: expected previous, best or another turn with code"
            f" ({', '.join(known)}), got {asked[:40]!r}"
        )
    return known[asked], "chosen"


def diff(turn: trajectory.TurnPage, other: trajectory.TurnPage, why: str) -> DiffView:
    """Code, figures and kernels of `turn` against those of `other`; `why` it is that one."""
    before, after = other.evaluation, turn.evaluation
    return DiffView(
        other=other,
        why=why,
        edits=source_view.diff(
            other.candidate or b"",
            turn.candidate or b"",
            ignore_space=request_context.flag_argument("space", "ignore"),
            whole=request_context.flag_argument("context", "all"),
        ),
        figures=evaluation_diff.figures(before, after, _compared(turn, other)),
        kernels=evaluation_diff.kernels(
            before.profile if before else None, after.profile if after else None
        ),
    )


def _compared(turn: trajectory.TurnPage, other: trajectory.TurnPage) -> speedup_ratio.Comparison:
    names = (f"turn {turn.turn_index}", f"turn {other.turn_index}")
    return speedup_ratio.compared(_side(turn), _side(other), names)


def _side(turn: trajectory.TurnPage) -> speedup_ratio.Side:
    return evaluation_diff.side(turn.evaluation, turn.believed.label, turn.baseline, None)
