"""The first calls of a candidate: one alone, which compiles its kernels, and what
further untimed ones tell.
"""

from __future__ import annotations

import functools
import time
from dataclasses import replace

import torch

from workers.referee.comparison import null_answers
from workers.referee.processes.process_handle import BUSY
from workers.referee.processes.process_session import FirstCall
from workers.referee.session.batches import Batch, Delivery, Truth, changed
from workers.referee.session.call_runner import LATER_S, QUEUED_S, TURN_US, CallRunner
from workers.referee.session.fault_attribution import disturbed
from workers.sandbox.process_errors import TimedOut

COMPUTING_CALLS = 100
"""Time of the reference's call, as a multiple, that the device may take for the
candidate's first call; at least LATER_S.  A kernel that does not end keeps the device from
all others, and no signal stops it.
"""

BUSY_PROBES = 5
"""Waits of QUEUED_S for the device to come to rest before a first call is ended."""

ENDING_S = 10.0
"""Longest wait in seconds for the end of a killed process, with which its work on
the device ends.
"""

LINGER_WRONG_S = 0.15
"""LINGER_S for a wrong output, which may merely be late."""

NULL_ELEMENTS = 1 << 26
"""Elements of an output that are compared with null answers."""

NULL_CALLS = 2
"""Calls compared with null answers, if their expected outputs have to be made for that."""


def make_first(runner: CallRunner) -> None:
    """Make a call on its own, which compiles kernels and takes its time.  Others may be timed
    during the call, but not during the referee's work before and after it.

    If the output is wrong, the candidate gets more time to show that it was merely late.
    """
    with runner.device_lock.shared():
        batch = runner.draw(1)
        runner.fill(runner.candidate, batch, 0, 1)
    computing_s = max(LATER_S, COMPUTING_CALLS * runner.call_us / 1e6)
    limits = (
        FirstCall(computing_s, functools.partial(_end_if_device_is_busy, runner))
        if runner.surveys
        else None
    )
    times = runner.run_apart(batch, runner.deadline.allow_first(compiles=runner.surveys), limits)
    runner.quickest_s = times.wall_ns / 1e9
    with runner.device_lock.shared():
        _verify_patiently(runner, runner.delivery(batch, 0, 1, times, []))


def _end_if_device_is_busy(runner: CallRunner) -> None:
    """End the candidate if the device goes on working for 10 s while everything that runs apart is
    paused.  Work that other calls have queued ends within that time, with the device to itself.

    Raises TimedOut if the device comes to rest with the end of the candidate's process.  Otherwise
    the work is another's: raises Fault (disturbed), and the evaluation is repeated alone.
    """
    with runner.device_lock.exclusive():
        for _ in range(BUSY_PROBES):
            if runner.probe.is_idle(TURN_US, QUEUED_S):
                return
            runner.device_lock.pause_all()  # also calls that seem to compile
        runner.candidate.process.kill(wait_s=ENDING_S)
        is_candidates = runner.probe.is_idle(TURN_US, QUEUED_S)
    raise TimedOut(BUSY) if is_candidates else disturbed()


def _verify_patiently(runner: CallRunner, delivery: Delivery) -> None:
    if not runner.verify(delivery, keep=False):
        runner.candidate.process.thaw()
        time.sleep(LINGER_WRONG_S)
        runner.candidate.process.freeze()
        runner.verify(replace(delivery, late=runner.late(delivery)))


def try_null_answers(runner: CallRunner, batch: Batch) -> Truth:
    """Test whether null answers, computed without the inputs, would be right; returns the
    expected outputs of the first calls.
    """
    calls = batch.slots
    if not runner.arena.slots.together:
        calls = min(calls, NULL_CALLS, max(1, runner.arena.slots.expected))
    found = runner.truth([(batch, 0, calls)])
    runner.record.null_answers = null_answers.accepted(
        list(map(_thinned, found.expected)), list(map(_thinned, found.baseline)), runner.record.rule
    )
    return found


def check_determinism(runner: CallRunner, before: Delivery) -> None:
    """Test whether the candidate gives the same bytes for the same inputs."""
    again = runner.run_candidate(before.batch, before.first, 1)
    runner.record.deterministic = not any(
        changed(before.part(0, 1).outputs, again.outputs, runner.arena.outputs)
    )


def _thinned(leaf: torch.Tensor) -> torch.Tensor:
    """Evenly spaced elements of each call, if there are very many."""
    return leaf[:, :: -(-leaf.shape[1] // NULL_ELEMENTS)] if leaf.shape[1] > NULL_ELEMENTS else leaf
