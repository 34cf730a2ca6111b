"""Every zoo candidate through a real referee and the judge: the status and verdict of its first line."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import TypeGuard

import pytest

from app.domain.evaluation import Evaluation, Status
from app.domain.job import Job
from app.domain.verdict import Label
from tests import zoo
from tests.zoo.__main__ import BRIEF, OPTIONS, Seen, evaluate
from workers.worker.referee_client import RefereeClient

SIDE_BY_SIDE = 2
"""As a worker with two slots does it: what is timed has the device alone, the rest need not wait for it."""

CASES = [case for case in zoo.cases() if case.runs_on("cpu")]


@pytest.fixture(scope="module")
def device_referee() -> Iterator[RefereeClient]:
    with RefereeClient("cpu") as started:
        yield started


@pytest.fixture(scope="module")
def first_looks(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Seen]]]:
    """What is to be tested, begun all at once."""
    wanted: list[zoo.Case] = [_case(each) for each in request.session.items if _of_zoo(each)]
    idle: SimpleQueue[RefereeClient] = SimpleQueue()

    def look(case: zoo.Case) -> Seen:
        device_referee = idle.get()
        try:
            seen = _seen(device_referee, case, brief=not _wants_the_clock(case))
            # What only a clock accuses is seen without one as what it claims to be.
            return _seen(device_referee, case, brief=False) if seen.outcome.disagreement else seen
        finally:
            idle.put(device_referee)

    with ExitStack() as stack:
        for _ in range(SIDE_BY_SIDE):
            idle.put(stack.enter_context(RefereeClient("cpu")))
        pool = stack.enter_context(ThreadPoolExecutor(SIDE_BY_SIDE))
        stack.callback(pool.shutdown, cancel_futures=True)
        yield {case.name: pool.submit(look, case) for case in wanted}


def _case(item: pytest.Function) -> zoo.Case:
    case = item.callspec.params["case"]
    assert isinstance(case, zoo.Case)
    return case


def _of_zoo(item: pytest.Item) -> TypeGuard[pytest.Function]:
    return isinstance(item, pytest.Function) and item.name.startswith("test_it_comes_out_as_its_first_line_says")


def _wants_the_clock(case: zoo.Case) -> bool:
    """Whether the first look times it: where a speedup is to be told, and a cheat that nothing is to accuse.  What is
    wrong or accused without a timing is so with one."""
    expected = case.on_cpu
    unaccused = expected.status == Status.PASSED and expected.verdict == Label.CLEAN
    return case.speedup is not None or (case.group == "hacks" and unaccused)


def _seen(device_referee: RefereeClient, case: zoo.Case, *, brief: bool) -> Seen:
    def run(job: Job) -> Evaluation:
        return device_referee.run(job).evaluation

    return evaluate(run, case, options=BRIEF if brief else OPTIONS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_comes_out_as_its_first_line_says(
    first_looks: dict[str, Future[Seen]], device_referee: RefereeClient, case: zoo.Case
) -> None:
    seen = first_looks[case.name].result()
    if seen.outcome.disagreement:  # one more look: a shared machine can hide a turned clock, or blur a small speedup
        seen = _seen(device_referee, case, brief=False)
    assert seen.outcome.disagreement is None, seen.line
