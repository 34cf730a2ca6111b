"""The example of the demo and of the form is the sample problem, and its candidates differ."""

from __future__ import annotations

from pathlib import Path

from app.domain import worked_example

SAMPLE = Path(__file__).parents[1] / "zoo" / "problems" / f"{worked_example.PROBLEM}.py"


def test_the_reference_is_that_of_the_sample() -> None:
    assert SAMPLE.read_text() == worked_example.REFERENCE


def test_candidates_differ_and_define_the_entry_point() -> None:
    assert len(set(worked_example.CANDIDATES.values())) == 3
    for source in worked_example.CANDIDATES.values():
        assert "class ModelNew" in source
        compile(source, "candidate.py", "exec")
