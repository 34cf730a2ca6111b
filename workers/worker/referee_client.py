"""ISOLATE: starts a referee, sends it jobs, enforces its deadline, and replaces it after a failure.

The worker has credentials and no torch; the referee has torch and no credentials.
They share a socket only.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from app.domain.evaluation import Environment, Evaluation
from app.domain.evidence import KernelCode
from app.domain.job import Job
from workers.protocol import paths, worker_socket
from workers.sandbox import layers, selftest, zygote_client
from workers.sandbox.process_errors import Ended, TimedOut, ZygoteError

GRACE_S = 30.0
"""Seconds that the referee may take beyond a job's deadline: the reference, one last
block, ablation.
"""

_PASSED_ON = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_HOME",
    "LD_LIBRARY_PATH",
    "TRITON_LIBCUDA_PATH",
    "TRITON_PTXAS_PATH",
)
"""Variables that locate the device and its libraries; none of them is a secret."""

GIVE_UP_S = 20.0
"""Seconds for a shared referee to drop an evaluation that takes too long.  A referee that
cannot hangs for all its users.
"""
START_TIMEOUT_S = 120.0
"""Seconds for importing torch on a cold disk."""


class InfrastructureError(RuntimeError):
    """A fault of Assay's: the job is tried again, and the candidate is not blamed."""

    def __init__(self, message: str, *, begun: bool = False, cut_short: bool = False) -> None:
        """`begun`: a process may have received the job's code, so that the fault may be its doing.
        `cut_short`: one of Assay's processes ended before the evaluation was over.
        """
        super().__init__(message)
        self.begun = begun
        self.cut_short = cut_short


class DeviceUnhealthyError(InfrastructureError):
    """The device cannot be trusted: its canary takes too long, or its driver reports a fault (Xid).
    The worker takes it out of service, and the job runs elsewhere.
    """


class CancelledError(RuntimeError):
    """The job was stopped on request."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Result of a referee."""

    evaluation: Evaluation
    timeline: bytes
    """Chrome trace as JSON."""
    codes: tuple[KernelCode, ...] = ()


_trying = threading.Lock()


@functools.cache
def _tried_sandbox() -> selftest.Report:
    """Report of the self-test, made once for this process and all that are forked
    from it afterwards.
    """
    return selftest.run()


def require_sandbox(*, allow_weak: bool) -> tuple[str, ...]:
    """Attempt every forbidden act from a process that is confined like a candidate
    (workers/sandbox/selftest.py).

    Returns the acts that succeeded, as entries for `Environment.sandbox_missing`, if `allow_weak`.
    Raises InfrastructureError otherwise, or if no process can be confined.
    """
    try:
        with _trying:
            report = _tried_sandbox()
        report.require(allow_weak=allow_weak)
    except (layers.WeakSandboxError, ZygoteError, Ended, TimedOut, OSError) as error:
        raise InfrastructureError(
            f"the sandbox of this host is not enough: {error or 'it does not answer'}"
        ) from error
    return report.marks


class RefereeClient:
    """Access to a referee of one device, which is restarted after a failure.  Use as
    a context manager.

    One thread launches and runs; another may wait until the referee is ready, cancel, or close.

    With one slot the referee belongs to this client and dies with the thread that launched it
    (prctl(2), PR_SET_PDEATHSIG), which must therefore live as long as the process.  With several
    slots, all processes that serve the device share one referee, because a GPU's contexts, warm
    processes and references are too expensive to have in each.  The first process launches it,
    and it ends after the last one.
    """

    def __init__(
        self,
        device_class: str,
        node: str = "local",
        index: int = 0,
        slots: int = 1,
        *,
        allow_weak_sandbox: bool = False,
    ) -> None:
        """Starts nothing before the first job, `start` or `launch`.

        `slots`: evaluations in flight on the device, each with its own client.
        `allow_weak_sandbox`: serve although a confined process can do forbidden acts, and
        record that in every evaluation.
        """
        self._device_class = device_class
        self._node = node
        self._index = index
        self._slots = slots
        self._allow_weak_sandbox = allow_weak_sandbox
        self._holes: tuple[str, ...] = ()
        self._shares = slots > 1 and device_class != "cpu"
        self._process: subprocess.Popen[bytes] | None = None
        self._launched: list[subprocess.Popen[bytes]] = []
        """Shared referees that this client launched and left, until they have ended
        and been waited for.
        """
        self._referee_pid: int | None = None
        self._channel: socket.socket | None = None
        self._cancelled = threading.Event()
        self._starting = threading.RLock()
        self._begun = False
        self.more_s = 0.0
        """Seconds that the running job may take beyond its limits, as the referee reports."""
        self.environment: Environment | None = None

    def start(self) -> Environment:
        """Ensure that a referee takes jobs.  Raises InfrastructureError."""
        with self._starting:
            gone = self._process is None or self._process.poll() is not None
            if self._channel is None or (gone and not self._shares):
                self.launch()
            return self.wait_ready()

    def launch(self) -> None:
        """Start a referee, which imports torch and takes its device in the
        background.  Raises InfrastructureError.
        """
        with self._starting:
            self.close()
            try:
                if self._shares:
                    self._channel = self._join()
                else:
                    self._channel, theirs = socket.socketpair()
                    with theirs:
                        self._process = self._referee(theirs)
            except OSError as error:
                self.close()
                raise InfrastructureError(f"the referee could not be launched: {error}") from error

    def _referee(self, fd: socket.socket) -> subprocess.Popen[bytes]:
        """A referee at the other end of a connection, or behind a listening socket."""
        arguments = [
            fd.fileno(),
            self._device_class,
            self._node,
            self._index,
            self._slots,
        ]
        command = [sys.executable, "-s", "-P", "-m", "workers.referee.serve", *map(str, arguments)]
        return subprocess.Popen(
            command,
            env=_environment(),
            pass_fds=[fd.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=self._shares,
        )

    def _join(self) -> socket.socket:
        """A connection to the device's referee, which is launched if there is none."""
        paths.LOCK_FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
        address = paths.referee_address(self._device_class, self._index)
        channel = socket.socket(socket.AF_UNIX)
        with Path(f"{address}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                channel.connect(str(address))
            except (FileNotFoundError, ConnectionRefusedError):
                address.unlink(missing_ok=True)
                with socket.socket(socket.AF_UNIX) as listener:
                    listener.bind(str(address))
                    listener.listen(2 * self._slots)
                    self._process = self._referee(listener)
                channel.connect(str(address))
        return channel

    def wait_ready(self) -> Environment:
        """Wait until the launched referee takes jobs.  Raises InfrastructureError
        with the reason that it reports.
        """
        with self._starting:
            if self.environment is not None:
                return self.environment
            if self._channel is None:
                raise InfrastructureError("no referee runs: the last one failed")
            self._holes = require_sandbox(
                allow_weak=self._allow_weak_sandbox
            )  # while the referee imports torch
            greeting = self._receive(START_TIMEOUT_S)
            if "error" in greeting:
                self.close()
                raise InfrastructureError(f"the referee did not start: {greeting['error']}")
            self._referee_pid = greeting["pid"]
            self.environment = self._with_holes(
                msgspec.convert(greeting["environment"], Environment)
            )
            return self.environment

    def _with_holes(self, environment: Environment) -> Environment:
        """The environment with the self-test's findings, which belong to every evaluation."""
        return replace(environment, sandbox_missing=(*environment.sandbox_missing, *self._holes))

    def run(self, job: Job) -> Measured:
        """Evaluate one job.  Raises InfrastructureError, or CancelledError after `cancel`."""
        self._cancelled.clear()
        self._begun, self.more_s = False, 0.0
        self.start()
        if self._cancelled.is_set():  # during the wait for another thread's launch
            raise CancelledError("the job was cancelled")
        assert self._channel is not None
        try:
            worker_socket.send(self._channel, worker_socket.from_job(job))
        except OSError as error:
            self.close()
            raise InfrastructureError(f"the referee is gone: {error}", cut_short=True) from error
        frame = self._receive(job.options.patience_s + GRACE_S)
        if "unhealthy" in frame:
            raise DeviceUnhealthyError(frame["unhealthy"], begun=True)
        if "error" in frame:
            if frame["ends"]:
                self.close()  # the next job has another
            raise InfrastructureError(
                f"the referee could not evaluate: {frame['error']}",
                begun=self._begun,
                cut_short=frame["cut_short"],
            )
        evaluation = msgspec.convert(frame["evaluation"], Evaluation)
        evaluation = replace(evaluation, environment=self._with_holes(evaluation.environment))
        codes = msgspec.convert(frame["codes"], tuple[KernelCode, ...])
        return Measured(evaluation=evaluation, timeline=frame["timeline"].encode(), codes=codes)

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        """The next frame.  A referee that dies or gives no answer is ended, and its successor
        starts with the next job; a shared one is ended only if it cannot even drop this
        evaluation, because others use it.
        """
        assert self._channel is not None
        began = time.monotonic()
        try:
            frame = self._next_answer(self._channel, began + timeout_s)
        except TimeoutError as error:
            if not self._is_dropped():
                self._end_referee()
            self.close()
            message = f"the referee gave no answer within {timeout_s + self.more_s:g} s"
            raise InfrastructureError(message, begun=self._begun) from error
        except OSError:
            frame = None
        if frame is not None:
            return frame
        process = self._process
        code = process.wait() if process and not self._shares else "unknown"
        self.close()
        if self._cancelled.is_set():
            raise CancelledError("the job was cancelled")
        message = f"the referee ended with code {code} after {time.monotonic() - began:.1f} s"
        raise InfrastructureError(message, begun=self._begun, cut_short=True)

    def _next_answer(self, channel: socket.socket, deadline: float) -> dict[str, Any] | None:
        """The next frame that is not a progress report; None if the other end has
        closed.  Raises TimeoutError.
        """
        while True:
            channel.settimeout(max(0.001, deadline + self.more_s - time.monotonic()))
            frame = worker_socket.receive(channel)
            if frame is None or "progress" not in frame:
                return frame
            self._begun = self._begun or bool(frame["progress"].get("begun"))
            self.more_s = max(self.more_s, frame["progress"].get("more_s", 0.0))

    def _is_dropped(self) -> bool:
        """Test whether a shared referee ends the evaluation after its connection is shut down."""
        if not self._shares or self._channel is None:
            return False
        try:
            self._channel.shutdown(socket.SHUT_WR)
            self._channel.settimeout(GIVE_UP_S)
            while "progress" in (worker_socket.receive(self._channel) or {}):
                pass
        except (OSError, ValueError):  # TimeoutError is one; a frame that was cut off is no JSON
            return False
        return True

    def _end_referee(self) -> None:
        """Kill a shared referee that does not answer: it hangs for all processes that
        share it, which retry with another.
        """
        if self._shares and self._referee_pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._referee_pid, signal.SIGKILL)

    def cancel(self) -> None:
        """End the running job, from another thread.  A referee that is not shared is killed, and
        the next job starts another; a shared one ends the candidate.
        """
        self._cancelled.set()
        self._kill()

    def close(self) -> None:
        """End the referee and everything below it; a shared one ends by itself after
        its last user.
        """
        self._kill()  # a thread that waits for it to be ready stops waiting
        with self._starting:
            if self._channel is not None:
                self._channel.close()
            if self._process is not None and not self._shares:
                self._process.wait()
            self._launched += [self._process] if self._process is not None and self._shares else []
            self._launched = [process for process in self._launched if process.poll() is None]
            self._process = self._channel = self.environment = None

    def _kill(self) -> None:
        process, channel = self._process, self._channel
        if self._shares:
            with contextlib.suppress(OSError):
                if channel is not None:
                    channel.shutdown(socket.SHUT_RDWR)
        elif process is not None:
            process.kill()

    def __enter__(self) -> RefereeClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _environment() -> dict[str, str]:
    """Environment of the referee: URLs of database and broker must not reach a
    process below which candidates run.
    """
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
        "HOME": "/nonexistent",
        "PYTHONPATH": zygote_client.import_path(),
        "OMP_NUM_THREADS": "1",
    } | {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
