"""A real Celery worker with a referee that only pretends: the candidate's source
says its behaviour.

    wrong             the answer is wrong, at once
    slow 0.5          … after so many seconds
    fault             our own machinery fails
    unready PATH      our own machinery cannot even begin, until the file exists
    sick PATH         the device is found unhealthy, until the file exists, which is made now
    bug               the service's own code raises an unexpected error
    die               the pool process is killed
    meet PATH 2       waits until so many jobs are at this line at once
    where PATH        appends the index of the device to the file
    log PATH          appends a line to the file, so that a test can count and order executions;
                      others may follow

A whole module begins with `# passes`, `# fails` or `# fault`, and that is its outcome.
A problem by cases is answered by cases, of which the second is wrong.
Started as `celery -A tests.integration.fake_worker worker` (`fakes.WORKER`) in the root of the
checkout.  A launch that finds the file FAKE_GATE notes its pid there and waits until the file is
gone.  FAKE_SILENT_S: seconds after which a pool process without a pulse, and a main process
without a sign of life, is killed.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from celery.concurrency.asynpool import AsynPool

from app import watchdog
from app.domain.evaluation import Environment
from app.domain.job import Job
from tests.integration.fakes import by_cases, incorrect, profiled
from workers.worker import pulse, referee_client


class FakeIsolator:
    def __init__(
        self,
        device_class: str,
        node: str = "local",
        device_index: int = 0,
        slots: int = 1,
        **_: object,
    ) -> None:
        self.environment = incorrect().environment
        self._index = device_index
        self._cancelled = threading.Event()
        self.more_s = 0.0

    def launch(self) -> None:
        gate = Path(os.environ.get("FAKE_GATE", ""))
        if gate.is_file():
            self._log(f"{gate} {os.getpid()}")
            while gate.is_file():
                time.sleep(0.02)

    def wait_ready(self) -> Environment:
        return self.environment

    def run(self, job: Job) -> referee_client.Measured:
        self._cancelled.clear()
        if job.candidate.startswith(b"# fault"):
            self._fault("")
        if job.candidate.startswith(b"# "):
            passes = job.candidate.startswith(b"# passes")
            return referee_client.Measured(
                evaluation=profiled() if passes else incorrect(), timeline=b"{}"
            )
        for line in job.candidate.decode().splitlines():
            verb, _, argument = line.partition(" ")
            getattr(self, f"_{verb}")(argument)
        return referee_client.Measured(
            evaluation=by_cases() if job.options.cases else incorrect(), timeline=b"{}"
        )

    def cancel(self) -> None:
        self._cancelled.set()

    def close(self) -> None:
        pass

    def _wrong(self, _: str) -> None:
        pass

    def _slow(self, seconds: str) -> None:
        if self._cancelled.wait(float(seconds)):
            raise referee_client.CancelledError("as asked")

    def _fault(self, _: str) -> None:
        raise referee_client.InfrastructureError("the device is on fire", begun=True)

    def _unready(self, path: str) -> None:
        if not Path(path).exists():
            raise referee_client.InfrastructureError("the referee did not start")

    def _sick(self, path: str) -> None:
        if not Path(path).exists():
            Path(path).touch()
            raise referee_client.DeviceUnhealthyError("the known kernel took 9 ms instead of 3")

    def _bug(self, _: str) -> None:
        raise KeyError("a bug")

    def _die(self, _: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def _meet(self, argument: str) -> None:
        path, _, count = argument.partition(" ")
        self._log(f"{path} {os.getpid()}")
        while len(set(Path(path).read_text().split())) < int(count):
            if self._cancelled.wait(0.02):
                raise referee_client.CancelledError("as asked")

    def _where(self, path: str) -> None:
        self._log(f"{path} {self._index}")

    def _log(self, line: str) -> None:
        path, _, word = line.partition(" ")
        with Path(path).open("a") as file:
            file.write(f"{word}\n")


patched: Any = AsynPool
patched.timers = property(
    lambda pool: {pool.maintain_pool: 0.25}
)  # for the dead: Celery looks every 5 s
patched = pulse
patched.SILENT_S = float(os.environ.get("FAKE_SILENT_S", pulse.SILENT_S))
patched.BEAT_S = min(pulse.BEAT_S, patched.SILENT_S / 10)
watch: Any = watchdog
watch.SILENT_S, watch.BEAT_S = patched.SILENT_S, patched.BEAT_S
patched = referee_client
patched.RefereeClient = FakeIsolator

from workers.worker.celery_app import app  # noqa: E402, F401 (after the referee has been replaced)
