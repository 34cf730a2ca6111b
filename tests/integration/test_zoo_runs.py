"""Zoo candidates through a real referee and the judge: the status and verdict of
each one's first line.

A sample of a seventh (tests/zoo/sample.py).  All of them: `ASSAY_ZOO=whole ./dev test
tests/integration/test_zoo_runs.py`, or `python -m tests.zoo`, which times each of them.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import TypeGuard

import pytest

from app.domain.evaluation import Status
from app.domain.verdict import Label
from tests import zoo
from tests.zoo import sample
from tests.zoo.__main__ import BRIEF, OPTIONS, Seen, evaluate
from workers.worker.referee_client import RefereeClient

SIDE_BY_SIDE = 2
"""Evaluations at a time, as in a worker with two slots: timing has the device alone,
the rest does not wait.
"""

CASES = [case for case in zoo.cases() if case.runs_on("cpu")]
CASES = CASES if os.environ.get("ASSAY_ZOO") == "whole" else sample.chosen(CASES)


class Looks:
    """A look at each case, begun all at once, and further ones."""

    def __init__(
        self, referees: list[RefereeClient], wanted: list[zoo.Case], pool: ThreadPoolExecutor
    ) -> None:
        self._idle: SimpleQueue[RefereeClient] = SimpleQueue()
        for each in referees:
            self._idle.put(each)
        self._first = {case.name: pool.submit(self._look, case) for case in wanted}

    def first(self, case: zoo.Case) -> Seen:
        return self._first[case.name].result()

    def another(self, case: zoo.Case) -> Seen:
        """With a clock."""
        return self._seen(case, brief=False)

    def _look(self, case: zoo.Case) -> Seen:
        seen = self._seen(case, brief=not _wants_the_clock(case))
        # A cheat that only a clock accuses is seen without one as it claims to be.
        return self._seen(case, brief=False) if seen.outcome.disagreement else seen

    def _seen(self, case: zoo.Case, *, brief: bool) -> Seen:
        referee = self._idle.get()
        try:
            return evaluate(
                lambda job: referee.run(job).evaluation, case, options=BRIEF if brief else OPTIONS
            )
        finally:
            self._idle.put(referee)


@pytest.fixture(scope="module")
def looks(request: pytest.FixtureRequest) -> Iterator[Looks]:
    """Device under test."""
    wanted = [_case(each) for each in request.session.items if _of_zoo(each)]
    with ExitStack() as stack:
        referees = [stack.enter_context(RefereeClient("cpu")) for _ in range(SIDE_BY_SIDE)]
        pool = stack.enter_context(ThreadPoolExecutor(SIDE_BY_SIDE))
        stack.callback(pool.shutdown, cancel_futures=True)
        yield Looks(referees, wanted, pool)


def _case(item: pytest.Function) -> zoo.Case:
    case = item.callspec.params["case"]
    assert isinstance(case, zoo.Case)
    return case


def _of_zoo(item: pytest.Item) -> TypeGuard[pytest.Function]:
    return isinstance(item, pytest.Function) and item.name.startswith(
        "test_it_comes_out_as_its_first_line_says"
    )


def _wants_the_clock(case: zoo.Case) -> bool:
    """Whether the first look times it: where a speedup is to be told, and a cheat that nothing is
    to accuse.  What is wrong or accused without a timing is so with one.
    """
    expected = case.on_cpu
    unaccused = expected.status == Status.PASSED and expected.verdict == Label.CLEAN
    return case.speedup is not None or (case.group == "hacks" and unaccused)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_comes_out_as_its_first_line_says(looks: Looks, case: zoo.Case) -> None:
    seen = looks.first(case)
    if (
        seen.outcome.disagreement
    ):  # one more look: a shared machine can hide a turned clock, or blur a small speedup
        seen = looks.another(case)
    assert seen.outcome.disagreement is None, seen.line
