"""Servers, workers and a web process that may be killed in every way, and a count of
their remains.
"""

from __future__ import annotations

import ctypes
import math
import os
import random
import shutil
import signal
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from subprocess import Popen
from types import MethodType
from typing import Any

from app import embedded
from app.client import Submission
from app.embedded import Services, process_lookup
from app.settings import Settings
from tests.integration import fakes
from tests.ports import free_port
from tests.processes import children, command_line, pool_processes

REFEREE = "workers.referee.serve"
"""Module that a referee's command line names."""
HELPERS = {
    "zygote": ("workers.sandbox.zygote", "workers.shims.candidate"),
    "builders": ("workers.sandbox.zygote", "workers.shims.builder"),
    "stopwatch": ("workers.referee.host.stopwatch",),
    "wakeful": ("workers.referee.host.core_waker",),
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
    """How bad it gets."""

    jobs: int
    seed: int
    every_s: float
    """Mean time between two kills."""
    kills: int | None = None
    """Enough of them; None goes on until every job is over."""
    storm_s: float = math.inf
    """Seconds of kills, after which all is left in peace."""
    workers: int = 2
    pretend: bool = False
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
        self._ways: list[Any] = []
        self.kills: Counter[str] = Counter()

    def kill_something(self) -> None:
        """Every way once, in a random order, then again in another."""
        if not self._ways:
            self._ways = [
                self.worker,
                self.pool_process,
                self.redis,
                self.redis_wiped,
                self.postgres,
                self.web,
            ]
            self._ways += [] if self._plan.pretend else [self.referee, self.warden, self.confined]
            self._ways += [] if self._plan.pretend else [self._helper(name) for name in HELPERS]
            self._random.shuffle(self._ways)
        way = self._ways.pop()
        if way():
            self.kills[way.__name__ if isinstance(way, MethodType) else way.args[0]] += 1

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
        except (urllib.error.URLError, OSError):
            return False

    def worker(self) -> bool:
        return kill(self._random.choice(self._workers).pid)

    def pool_process(self) -> bool:
        return kill(self._one_of(pool_processes(self._random.choice(self._workers).pid)))

    def referee(self) -> bool:
        return kill(self._one_of(self._referees()))

    def warden(self) -> bool:
        return kill(self._one_of(self._below_zygotes()))

    def confined(self) -> bool:
        return kill(
            self._one_of([each for warden in self._below_zygotes() for each in children(warden)])
        )

    def _helper(self, name: str) -> partial[bool]:
        return partial(self._kill_helper, name)

    def _kill_helper(self, name: str) -> bool:
        return kill(self._one_of(self._helpers(name)))

    def _helpers(self, name: str) -> list[int]:
        """Helpers of that name of all referees."""
        started = [each for referee in self._referees() for each in children(referee)]
        return [pid for pid in started if all(word in command_line(pid) for word in HELPERS[name])]

    def _referees(self) -> list[int]:
        return referees(worker.pid for worker in self._workers)

    def _below_zygotes(self) -> list[int]:
        return [each for zygote in self._helpers("zygote") for each in children(zygote)]

    def web(self) -> bool:
        return kill(self._web.pid)

    def redis(self) -> bool:
        return self._server("redis", "valkey.pid")

    def redis_wiped(self) -> bool:
        return self._server(
            "redis", "valkey.pid", lambda home: shutil.rmtree(home / "appendonlydir")
        )

    def postgres(self) -> bool:
        return self._server("postgres/data", "postmaster.pid")

    def _server(
        self, folder: str, pid_file: str, meanwhile: Callable[[Path], None] = lambda home: None
    ) -> bool:
        home = self.settings.state_dir / folder
        if not kill(process_lookup.alive_in(home, home / pid_file)):
            return False
        time.sleep(self._random.uniform(0.2, 1.0))
        process_lookup.wait_until_unused(home, 30)
        meanwhile(home)
        with Services(replace(self.settings, database_url=None, broker_url=None)):
            pass  # it stays: this process has the services open
        return True

    def _one_of(self, pids: list[int]) -> int | None:
        return self._random.choice(pids) if pids else None

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


def kill(pid: int | None) -> bool:
    """Kill; True if there was a process to kill."""
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
