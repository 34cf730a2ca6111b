"""Servers, workers and a web process that may be killed in every way, and a count of
their remains.
"""

from __future__ import annotations

import ctypes
import math
import os
import random
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from subprocess import Popen

from app import embedded
from app.client import Submission
from app.settings import Settings
from tests.bench.server_kills import kill, kill_server
from tests.integration import fakes
from tests.ports import free_port
from tests.processes import children, command_line, pool_processes

REFEREE = "workers.referee.serve"
"""Module that a referee's command line names."""
HELPERS = {
    "zygote": ("workers.sandbox.zygote", "workers.shims.candidate"),
    "builders": ("workers.sandbox.zygote", "workers.shims.builder"),
    "stopwatch": ("workers.referee.host.stopwatch",),
    "core_waker": ("workers.referee.host.core_waker",),
}
"""Processes that a referee starts, by words of their command lines."""


_PR_SET_CHILD_SUBREAPER = 36

PATIENCE_S = 120.0
"""Longest time without any job coming to its end."""


REFERENCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x): return torch.relu(x) + 1
def get_inputs(): return [torch.randn(64, 64)]
"""


HONEST = REFERENCE.replace("class Model(", "class ModelNew(")


WRONG = HONEST.replace("+ 1", "+ 2")
OPTIONS = {"timing_budget_s": 0.05, "deadline_s": 60.0}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Jobs of a run, and how everything that runs them is killed meanwhile."""

    jobs: int
    seed: int
    every_s: float
    """Mean time between two kills."""
    kills: int | None = None
    """Number of kills; None: they go on until every job is over."""
    storm_s: float = math.inf
    """Seconds of kills, after which all is left in peace."""
    workers: int = 2
    pretend: bool = False
    """True if workers only wait in place of evaluating."""
    device_class: str = "cpu"
    """Class of the devices, one for each worker, that evaluate."""
    slots: int | None = None
    """Evaluations in flight on each; None: as many as a device of the class is worth."""

    def submissions(self) -> list[Submission]:
        if self.pretend:
            each = [(f"slow 0.08\nslow {number / 1e9:.9f}", "fake") for number in range(self.jobs)]
        else:
            each = [
                (f"{WRONG if number % 2 else HONEST}# {number}\n", REFERENCE)
                for number in range(self.jobs)
            ]
        return [
            Submission(
                reference=reference,
                candidate=candidate,
                backend="torch",
                gpu=self.device_class,
                options=OPTIONS,
            )
            for candidate, reference in each
        ]

    def expected(self, number: int) -> str:
        return "incorrect" if self.pretend or number % 2 else "passed"


class Site:
    """Everything that may be killed."""

    def __init__(self, settings: Settings, plan: Plan) -> None:
        self.settings = settings
        self._plan = plan
        self._random = random.Random(plan.seed)
        self.port = free_port()
        self._workers = [self._start_worker(index) for index in range(plan.workers)]
        self._web = self._start_web()
        self._next: list[str] = []
        """Names of the ways to kill that are still to come in this round."""
        self.kills: Counter[str] = Counter()

    def kill_something(self) -> None:
        """Kill in the next way: every way once, in a random order, then again in another."""
        ways = self._ways()
        if not self._next:
            self._next = self._random.sample(list(ways), len(ways))
        name = self._next.pop()
        self.kills[name] += ways[name]()

    def _ways(self) -> dict[str, Callable[[], bool]]:
        """Ways to kill, by name; each returns whether there was anything to kill."""
        ways: dict[str, Callable[[], bool]] = {
            "worker": lambda: kill(self._random.choice(self._workers).pid),
            "pool_process": lambda: self._kill_one_of(
                pool_processes(self._random.choice(self._workers).pid)
            ),
            "redis": lambda: self._kill_server("redis"),
            "redis_wiped": lambda: self._kill_server("redis", wipes=True),
            "postgres": lambda: self._kill_server("postgres"),
            "web": lambda: kill(self._web.pid),
        }
        if self._plan.pretend:
            return ways
        ways |= {
            "referee": lambda: self._kill_one_of(self._referees()),
            "warden": lambda: self._kill_one_of(self._wardens()),
            "confined": lambda: self._kill_one_of(
                [each for warden in self._wardens() for each in children(warden)]
            ),
        }
        helpers = {name: partial(self._kill_helper, name) for name in HELPERS}
        return ways | helpers

    def supervise(self) -> None:
        """Start again the processes that have ended."""
        for index, worker in enumerate(self._workers):
            if worker.poll() is not None:
                self._workers[index] = self._start_worker(index)
        if self._web.poll() is not None:
            self._web = self._start_web()

    def close(self) -> None:
        for process in (*self._workers, self._web):
            process.kill()
            process.wait()

    def web_answers(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/healthz", timeout=5
            ) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def _kill_helper(self, name: str) -> bool:
        return self._kill_one_of(self._helpers(name))

    def _helpers(self, name: str) -> list[int]:
        """Helpers of that name of all referees."""
        started = [each for referee in self._referees() for each in children(referee)]
        return [pid for pid in started if all(word in command_line(pid) for word in HELPERS[name])]

    def _referees(self) -> list[int]:
        return referees(worker.pid for worker in self._workers)

    def _wardens(self) -> list[int]:
        return [each for zygote in self._helpers("zygote") for each in children(zygote)]

    def _kill_server(self, name: str, *, wipes: bool = False) -> bool:
        pause_s = self._random.uniform(0.2, 1.0)
        return kill_server(self.settings, name, wipes=wipes, pause_s=pause_s)

    def _kill_one_of(self, pids: list[int]) -> bool:
        return kill(self._random.choice(pids) if pids else None)

    def _start_worker(self, index: int) -> Popen[bytes]:
        module = fakes.WORKER if self._plan.pretend else "workers.worker.celery_app"
        device_class = self._plan.device_class
        return embedded.start_worker(
            self.settings, device_class=device_class, device_index=index, module=module
        )

    def _start_web(self) -> Popen[bytes]:
        return embedded.start_web(self.settings, port=self.port)


@contextmanager
def site(settings: Settings, plan: Plan) -> Iterator[Site]:
    adopt_orphans(adopt=True)
    running = Site(settings, plan)
    try:
        yield running
    finally:
        running.close()
        adopt_orphans(adopt=False)


def adopt_orphans(*, adopt: bool) -> None:
    """Let this process be the parent of processes below it whose own parent has ended (prctl(2)).

    An orphan that this process does not wait for stays in /proc as a zombie, so that a process
    which goes on to do other things ends the adoption.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def referees(workers: Iterable[int]) -> list[int]:
    """Referees of these workers.  One that slots share outlives the pool process that launched it,
    and is a child of this process then (see adopt_orphans).
    """
    launched = [each for worker in workers for pool in children(worker) for each in children(pool)]
    return [
        pid for pid in (*launched, *children(os.getpid())) if f" {REFEREE} " in command_line(pid)
    ]
