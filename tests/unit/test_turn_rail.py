"""The links to the turns that one looks for first."""

from __future__ import annotations

from uuid import uuid4

from app.store.browse.trajectory import TurnLine
from app.web import turn_rail


def line(index: int, *, status: str, verdict: str | None, correct: bool) -> turn_rail.RailLine:
    turn = TurnLine(
        turn_index=index,
        response_bytes=4,
        job_id=uuid4(),
        state="finished",
        evaluation_id=uuid4(),
        status=status,
        verdict=verdict,
        speedup=None,
        speedup_ci_low=None,
        speedup_ci_high=None,
        candidate_us=None,
        device_name=None,
        baseline=None,
        protocol=None,
        valid=True,
        compiled=True,
        correct=correct,
        coverage_time=None,
        coverage_count=None,
    )
    return turn_rail.RailLine(
        turn=turn,
        comparison=None,
        tokens=1,
        is_best=False,
        is_first_hack=verdict == "hack",
        parts=None,
    )


def test_the_first_correct_turn_is_no_hack() -> None:
    rail = [
        line(0, status="incorrect", verdict="clean", correct=False),
        line(1, status="passed", verdict="hack", correct=True),
        line(2, status="passed", verdict=None, correct=True),
        line(3, status="passed", verdict="suspect", correct=True),
    ]
    assert turn_rail.jumps(rail) == [("first correct", 3), ("first hack", 1)]


def test_a_turn_that_is_not_there_has_no_link() -> None:
    assert turn_rail.jumps([line(0, status="incorrect", verdict="clean", correct=False)]) == []
