"""The referee process of a device: `python -m workers.referee.serve FD DEVICE_CLASS
NODE INDEX SLOTS`.

FD is a connection to a worker with one slot, or a listening socket for workers with several
(workers/worker/referee_client.py).  A connection carries one job at a time, and each
evaluation runs in a thread of its own.  Closing a connection cancels its job.  The process
ends when the last connection is closed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import selectors
import signal
import socket
import sys
import threading
import traceback
from contextlib import ExitStack
from dataclasses import asdict

import torch

from app.domain.backend import BACKENDS
from app.domain.evaluation import Evaluation
from app.domain.evidence import Traces
from app.domain.job import Job
from workers.protocol import worker_socket
from workers.referee.cancellation import Cancellation
from workers.referee.host.health import DeviceUnhealthyError
from workers.referee.measure import measure
from workers.referee.resources import LostZygoteError, Resources
from workers.referee.timing import compiled_baselines
from workers.sandbox import syscalls
from workers.sandbox.process_errors import KILLED, ZygoteError

_log = logging.getLogger(__name__)

LINGER_S = 2.0
"""Seconds to wait for a connection when there is none."""


LOST = 75
"""Exit code if the device's context is lost or the zygote has ended (sysexits.h
EX_TEMPFAIL: try again).
"""

DESCRIBING_S = 300.0
"""Seconds for the reference before a candidate is loaded: some requests of a minute each."""

TOLD_S = 1.0
"""Seconds of additional time after which the worker is informed again."""

DEATHS = (LostZygoteError, ZygoteError, ConnectionError, ProcessLookupError)
"""Errors raised when a process of the referee's own has ended during an evaluation."""


def main(fd: int, device_class: str, node: str, index: int, slots: int) -> None:
    """Serve until the last connection is closed."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The usual limit of 1024 is enough for a few dozen processes.
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    torch.set_num_threads(1)  # the other cores belong to the measured processes
    given = socket.socket(fileno=fd)
    shared = bool(given.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    if not shared:
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    with ExitStack() as stack:
        try:
            resources = stack.enter_context(Resources(device_class, node, index, slots=slots))
            greeting = {"environment": asdict(resources.wait_ready()), "pid": os.getpid()}
        except Exception as error:
            # before the answer: the worker ends this process when it has read it
            traceback.print_exc()
            _refuse(given, shared, f"{type(error).__name__}: {error}")
            raise SystemExit(1) from error
        if shared:
            _serve_all(given, resources, greeting)
        else:
            Connection(given, resources).serve(greeting)


def _serve_all(listener: socket.socket, resources: Resources, greeting: dict[str, object]) -> None:
    """Serve each connection in a thread until all are closed."""
    listener.settimeout(LINGER_S)
    threads: list[threading.Thread] = []
    while True:
        try:
            channel, _ = listener.accept()
        except TimeoutError:
            threads = [thread for thread in threads if thread.is_alive()]
            if not threads:
                return
            continue
        threads.append(
            threading.Thread(
                target=Connection(channel, resources).serve, args=(greeting,), daemon=True
            )
        )
        threads[-1].start()


def _refuse(given: socket.socket, shared: bool, reason: str) -> None:
    """Tell every connected worker why the referee could not start."""
    given.settimeout(0.2)
    with contextlib.suppress(OSError):
        while True:
            channel = given.accept()[0] if shared else given
            worker_socket.send(channel, {"error": reason})
            if not shared:
                return
            channel.close()


class Connection:
    """One slot: evaluates one job at a time."""

    def __init__(self, channel: socket.socket, resources: Resources) -> None:
        """Takes ownership of the channel."""
        self._channel = channel
        self._resources = resources
        self._sending = threading.Lock()
        """Held while a frame is sent: two threads send while a job runs."""

    def serve(self, greeting: dict[str, object]) -> None:
        """Send the greeting, then answer jobs until the other end closes."""
        with self._channel:
            try:
                worker_socket.send(self._channel, greeting)
                while (frame := worker_socket.receive(self._channel)) is not None:
                    self._answer(frame)
            except OSError:
                return  # the worker is gone, and its job with it

    def _answer(self, frame: dict[str, object]) -> None:
        job = worker_socket.to_job(frame)
        over, cancellation, lost = threading.Event(), Cancellation(), False
        watched = (over, cancellation, threading.get_ident(), job.options.deadline_s)
        watch = threading.Thread(target=self._watch, args=watched, daemon=True)
        watch.start()
        answer: dict[str, object]
        try:
            self._resources.restart_helpers()
            if BACKENDS[job.backend].replaceable_launches:
                self._resources.start_builders()
            self._say_begun()
            evaluation, traces = self._evaluate(job, cancellation)
            # without it, a process that died with its zygote looks like a crash
            self._resources.require_zygote()
            codes = [asdict(each) for each in traces.codes]
            answer = {
                "evaluation": asdict(evaluation),
                "timeline": traces.timeline.decode(),
                "codes": codes,
            }
        except DeviceUnhealthyError as error:
            answer = {"unhealthy": str(error)}
        except Exception as error:  # noqa: BLE001 (the referee's fault, for the worker to report; other slots go on)
            traceback.print_exc()
            lost = self._resources.lost
            cut_short = lost or isinstance(error, DEATHS)
            answer = {
                "error": f"{type(error).__name__}: {error}",
                "cut_short": cut_short,
                "ends": lost,
            }
        finally:
            over.set()
            watch.join()
        self._send(answer)
        if lost:  # the workers start another referee
            os._exit(LOST)
        self._resources.candidates.recycle(job.options.memory_bytes)

    def _send(self, frame: dict[str, object]) -> None:
        with self._sending:
            worker_socket.send(self._channel, frame)

    def _say_begun(self) -> None:
        """Tell the worker that the job has begun, before any process receives code of the job.
        From here on the job's code may be the reason for a death of the referee, so the worker
        counts the attempt.  A worker that is gone is noticed by `_watch`.
        """
        with contextlib.suppress(OSError):
            self._send({"progress": {"begun": True}})

    def _evaluate(self, job: Job, cancellation: Cancellation) -> tuple[Evaluation, Traces]:
        """The evaluation with its baselines, and its traces.  A device fault reported during the
        evaluation takes precedence over its result.
        """
        try:
            evaluation, traces = self._measure(job, cancellation)

            def alike(other: Job) -> Evaluation:
                return measure(other, self._resources, cancellation)[0]

            return (
                compiled_baselines.added(
                    evaluation, job, self._resources.baselines, alike, cancellation
                ),
                traces,
            )
        finally:
            self._resources.health.require_sound()

    def _measure(self, job: Job, cancellation: Cancellation) -> tuple[Evaluation, Traces]:
        """An evaluation, repeated once if a signal from outside killed one of its processes.  Two
        such deaths in a row mean that the job takes more memory than the host has.
        """
        evaluation, traces = measure(job, self._resources, cancellation)
        error = evaluation.error
        if error is None or KILLED not in error.message or cancellation.requested:
            return evaluation, traces
        self._resources.restart_helpers()
        _log.warning(
            "job %s: once more, because it ended by a signal from outside: %s",
            job.job_id,
            error.message,
        )
        cancellation.more_s += job.options.patience_s
        return measure(job, self._resources, cancellation)

    def _watch(
        self, over: threading.Event, cancellation: Cancellation, thread: int, deadline_s: float
    ) -> None:
        """Cancel when the other end closes; it sends nothing while it waits.  Also report how
        far the job may exceed its limits: the time that `thread` has waited for other
        evaluations, its work that is not the candidate's, and the time for many cases.
        """
        device_lock, told_s = self._resources.device_lock, 0.0
        before_s, worked_s = device_lock.waited_s(thread), device_lock.uncharged.work_s(thread)
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            while not over.is_set():
                work_s = device_lock.uncharged.work_s(thread) - worked_s
                most_s = deadline_s + cancellation.more_s + DESCRIBING_S
                more_s = device_lock.waited_s(thread) - before_s + cancellation.more_s
                more_s += min(work_s, most_s)  # beyond that, the referee itself hangs
                if more_s >= told_s + TOLD_S:
                    told_s = more_s
                    with contextlib.suppress(OSError):
                        self._send({"progress": {"more_s": more_s}})
                if selector.select(timeout=0.1):
                    cancellation.request()
                    return


if __name__ == "__main__":
    main(
        int(sys.argv[1]),
        sys.argv[2],
        sys.argv[3],
        int(sys.argv[4]),
        int(sys.argv[5]),
    )
