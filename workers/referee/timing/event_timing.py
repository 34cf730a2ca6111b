"""Timing as KernelGYM does it, beside Assay's: 3 calls to warm up, the mean of 100
calls timed by events.

Each side's own process measures, on the same inputs in every call: testimony, which earns no
credit.  Source: KernelGYM, toolkit/kernelbench/timing.py; Dr.  Kernel, arXiv 2602.05885.
"""

from __future__ import annotations

from dataclasses import replace

from app.domain.evaluation import Timing
from app.domain.other_timings import EventTiming
from workers.protocol.control_channel import Command
from workers.referee.processes.process_handle import FailedError
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.deadline import REFERENCE_TIMEOUT_S
from workers.referee.timing.quiet_host import QuietHost

WARMUPS = 3
"""Uncounted calls before the trials, as in KernelGYM."""
TRIALS = 100
"""Timed calls, as in KernelGYM."""
SHARE = 0.25
"""Share of the remaining time that a side's trials may take; a slow side has fewer trials."""


def added(timing: Timing | None, runner: CallRunner, quiet_host: QuietHost) -> Timing | None:
    """The timing with KernelGYM's figures; unchanged if the candidate cannot be called with
    gradients on, as these calls are.  The processes' other exceptions pass through.
    """
    if timing is None:
        return None
    in_time = runner.deadline.left_s * SHARE * 1e6 / max(timing.reference_us, timing.candidate_us)
    count = max(1, min(TRIALS, int(in_time) - WARMUPS))
    with runner.exclusive(), quiet_host.prepared_for(runner):
        try:
            reference_us, candidate_us = _event_means(runner, WARMUPS, count)
        except FailedError:  # a reference's is another exception
            return timing
    found = EventTiming(
        reference_us=reference_us,
        candidate_us=candidate_us,
        speedup=reference_us / candidate_us,
        trials=count,
    )
    return replace(timing, event_timing=found)


def _event_means(runner: CallRunner, warmups: int, trials: int) -> tuple[float, float]:
    """Microseconds per call of reference and candidate by their own events, on
    inputs that stay the same.
    """
    batch = runner.draw(1)
    means = []
    for session in (runner.reference, runner.candidate):
        with (
            runner.side_of(session),
            session.handle.lock,
        ):
            runner.fill(session, batch, 0, 1)
            # With gradients on, torch.compile compiles once more.
            on_trial = session is runner.candidate
            timeout_s = runner.deadline.allow(warmups + trials) if on_trial else REFERENCE_TIMEOUT_S
            slot = runner.slot(batch, 0, 1)
            mean_ns, _ = session.ask(Command.EVENTS, timeout_s, a=slot, b=warmups, c=trials)
            session.process.freeze()
        means.append(max(1, mean_ns) / 1000)
    return means[0], means[1]
