"""Rollouts of the RL bench (tests.bench.rl.rollouts): which trajectory waits for
which evaluation.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any
from uuid import uuid4

import pytest
import torch

from app.domain import result as results
from app.domain.job import JobState
from tests.bench.rl.grammar import CPU, Grammar
from tests.bench.rl.policy import Policy
from tests.bench.rl.rollouts import covered_s, sample, setting

TURNS = 3


class Held:
    """Answers at once, except the first trajectory's first request: that one waits
    until all others have ended.
    """

    def __init__(self, others: int, *, faults: bool = False) -> None:
        self.backlog = 1
        self.first: Future[Any] | None = None
        self.left, self.faults = others * (1 if faults else TURNS), faults
        self.asked = 0

    def submit(self, request):
        self.asked += 1
        found: Future[Any] = Future()
        if self.first is None:
            self.first = found
            return found
        self.left -= 1
        found.set_result(self._result())
        if not self.left:
            self.first.set_result(self._result())
        return found

    def undisturbed(self):
        return nullcontext()

    def _result(self):
        return _result(faults=self.faults)


class OneByOne:
    """Evaluates one request after the other, with two more that wait for it."""

    backlog = 3

    def __init__(self) -> None:
        self.pool, self.writings = ThreadPoolExecutor(1), 0

    def submit(self, request):
        return self.pool.submit(self._evaluated)

    def _evaluated(self):
        time.sleep(0.04)  # longer than the policy writes
        return _result()

    def undisturbed(self):
        self.writings += 1
        return nullcontext()


def _result(*, faults: bool = False) -> Any:
    state = JobState.FAILED if faults else JobState.FINISHED
    result: Any = results.build(job_id=uuid4(), state=state, evaluation=None, verdict=None)
    if not faults:
        result.update(
            valid=True, status="passed", compiled=True, correct=True, verdict="clean", speedup=1.5
        )
    return result


def _sampled(held, samples):
    torch.manual_seed(0)
    chosen = setting(
        Grammar(CPU), turns=TURNS, reward="dr_kernel", device_class="cpu", budget_s=0.1
    )
    policy = Policy(chosen.vocabulary, width=16, depth=1, prior={})
    return sample(policy, chosen, held, samples=samples, generator=torch.Generator().manual_seed(0))


@pytest.mark.timeout(60)
def test_no_trajectory_waits_for_the_answers_of_others():
    held = Held(others=3)
    found = _sampled(held, samples=4)
    assert [len(attempts) for attempts in found.attempts] == [TURNS] * 4
    assert held.asked == 4 * TURNS
    assert torch.isfinite(found.log_prob).all()
    assert (found.log_prob <= 0).all()


@pytest.mark.timeout(60)
def test_answers_are_written_together_while_the_evaluator_is_busy():
    one_by_one = OneByOne()
    found = _sampled(one_by_one, samples=12)
    assert [len(attempts) for attempts in found.attempts] == [TURNS] * 12
    assert one_by_one.writings <= 6


@pytest.mark.timeout(60)
def test_a_fault_of_the_evaluator_ends_its_trajectory_without_a_reward():
    found = _sampled(Held(others=3, faults=True), samples=4)
    assert [[one.outcome.reward for one in attempts] for attempts in found.attempts] == [[None]] * 4


def test_covered_time_counts_overlaps_once_and_gaps_not_at_all():
    assert covered_s([]) == 0
    assert covered_s([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.5, 1.75)]) == pytest.approx(4.0)
