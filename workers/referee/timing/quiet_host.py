"""Quiet host for a benchmark: cores that stay awake, quiet cores for both sides, and
the interpreter.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from workers.referee.host.core_waker import CoreWaker
from workers.referee.host.cpu_affinity import Cores
from workers.referee.host.health import Health
from workers.referee.host.launching_core import LaunchingCore
from workers.referee.session.call_runner import CallRunner
from workers.sandbox.confined_process import StopwatchInterface

SWITCH_S = 0.0005
"""Thread switch interval of the interpreter during timing, in seconds: the longest time
that another thread keeps it from the timing thread.  Outside of timing the default, ten
times as long, lets eight evaluations wait less often for each other (with this value
throughout 240 a minute, else 267; one H200).
"""


@dataclass(frozen=True, kw_only=True)
class QuietHost:
    """Cores and interpreter of a benchmark."""

    core_waker: CoreWaker
    health: Health
    stopwatch: StopwatchInterface
    cores: Cores | None
    """None on the CPU, where both sides are bound to one core from the start."""

    @contextmanager
    def prepared_for(self, runner: CallRunner) -> Iterator[None]:
        """Keep cores awake, both sides on quiet cores, and the interpreter available
        to the timing thread.
        """
        with ExitStack() as stack:
            stack.callback(sys.setswitchinterval, sys.getswitchinterval())
            sys.setswitchinterval(SWITCH_S)
            stack.enter_context(self.core_waker.awake())
            if self.cores is not None:
                pids = [side.process.pid for side in (runner.reference, runner.candidate)]
                stack.enter_context(self.cores.quiet(pids))
                if self.cores.are_apart:
                    runner.core = LaunchingCore(self.cores, self.core_waker, pids)
                    stack.callback(setattr, runner, "core", None)
            yield
