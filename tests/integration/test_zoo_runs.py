"""Every zoo candidate through a real referee and the judge: the status and verdict of its first line."""

from collections.abc import Iterator

import pytest

from app.domain.evaluation import Evaluation
from app.domain.job import Job
from tests import zoo
from tests.zoo.__main__ import BRIEF, OPTIONS, evaluate
from workers.isolate import Isolator


@pytest.fixture(scope="module")
def isolator() -> Iterator[Isolator]:
    with Isolator("cpu") as started:
        yield started


@pytest.mark.parametrize("case", [case for case in zoo.cases() if case.runs_on("cpu")], ids=lambda case: case.name)
def test_it_comes_out_as_its_first_line_says(isolator: Isolator, case: zoo.Case) -> None:
    def run(job: Job) -> Evaluation:
        return isolator.run(job).evaluation

    brief = case.speedup is None and case.group != "hacks"
    seen = evaluate(run, case, options=BRIEF if brief else OPTIONS)
    if seen.outcome.disagreement:  # one more look: a shared machine can hide a turned clock, or blur a small speedup
        seen = evaluate(run, case)
    assert seen.outcome.disagreement is None, seen.line
