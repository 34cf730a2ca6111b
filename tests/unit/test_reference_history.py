"""History of references' times."""

import uuid
from dataclasses import replace

import pytest

from app.domain.evaluation import Timing
from app.domain.job import Job
from tests.timings import timing
from workers.referee.host.reference_history import (
    BENCHMARKS,
    KEPT_BENCHMARKS,
    KEPT_PROBLEMS,
    ReferenceHistory,
)

TIMING = timing(reference_us=100.0, candidate_us=50.0)


def _job(problem: bytes) -> Job:
    return Job(job_id=uuid.uuid4(), reference=problem, candidate=b"", backend="triton")


def _usual_us(
    history: ReferenceHistory, reference_us: float, problem: bytes = b"a"
) -> float | None:
    return history.compared(
        _job(problem), replace(TIMING, reference_us=reference_us)
    ).reference_usual_us


def test_a_benchmark_is_compared_with_those_before_it() -> None:
    history = ReferenceHistory()
    assert [_usual_us(history, us) for us in (100.0, 102.0, 250.0, 180.0, 99.0)] == [
        None,
        None,
        None,
        100.0,
        100.0,
    ]
    assert _usual_us(history, 500.0) == 99.0


def test_what_was_usual_long_ago_is_forgotten() -> None:
    history = ReferenceHistory()
    for us in [50.0] + [100.0] * KEPT_BENCHMARKS:
        _usual_us(history, us)
    assert _usual_us(history, 100.0) == 100.0


def test_problems_do_not_know_of_each_other_and_the_oldest_go() -> None:
    history = ReferenceHistory()
    for _ in range(BENCHMARKS):
        _usual_us(history, 100.0)
    assert _usual_us(history, 10.0, problem=b"b") is None
    for number in range(KEPT_PROBLEMS):
        _usual_us(history, 1.0, problem=str(number).encode())
    assert _usual_us(history, 100.0) is None


def test_the_last_benchmark_is_known_from_the_first_on() -> None:
    history = ReferenceHistory()
    assert history.last_us(_job(b"a")) is None
    _usual_us(history, 12.0)
    _usual_us(history, 10.0)
    assert (history.last_us(_job(b"a")), history.last_us(_job(b"b"))) == (10.0, None)


def _widened(times_us: list[float], *, widens: bool = True) -> Timing:
    """Timing of the last of some benchmarks of one problem, which said 2.0 [1.9, 2.1]."""
    history, found = ReferenceHistory(widens=widens), TIMING
    for us in times_us:
        found = history.compared(_job(b"a"), replace(TIMING, reference_us=us))
    return found


def test_an_interval_holds_the_speedup_of_well_placed_sides() -> None:
    """A reference that takes 4.9 or 6.4 ms by the placement of its memory
    (KernelBench 2/77, H200).
    """
    badly = _widened([4900.0, 6400.0, 4900.0, 6400.0])
    assert (badly.ci_low, badly.ci_high) == pytest.approx((1.9 * 4900 / 6400, 2.1 * 6400 / 4900))
    well = _widened([4900.0, 6400.0, 6400.0, 4900.0])
    assert (well.ci_low, well.ci_high) == pytest.approx((1.9, 2.1 * 6400 / 4900))
    assert (badly.speedup, well.speedup) == (2.0, 2.0)


def test_a_single_slow_benchmark_of_many_does_not_widen_the_next_ones() -> None:
    assert _widened([5000.0] * 3 + [9000.0] + [5000.0] * 4).ci_high == 2.1


@pytest.mark.parametrize("times_us", [[4900.0, 6400.0, 4900.0], [49.0, 64.0, 49.0, 64.0]])
def test_few_benchmarks_and_short_calls_widen_nothing(times_us: list[float]) -> None:
    found = _widened(times_us)
    assert (found.ci_low, found.ci_high) == (1.9, 2.1)


def test_the_cpu_has_no_placement() -> None:
    found = _widened([4900.0, 6400.0, 4900.0, 6400.0], widens=False)
    assert (found.ci_low, found.ci_high) == (1.9, 2.1)
