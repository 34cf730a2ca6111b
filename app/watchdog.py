"""A process beside each server process (web, worker, generator) that kills it once it is frozen:
stopped by a signal, or held by a lock that is never released.  Its supervisor (`assay up`, Compose,
a service manager) then starts it again: an end is all that it sees.

The server process writes a byte into a pipe every BEAT_S.  This file is also the
program of the watchdog, which imports the standard library alone: `python -I -S
app/watchdog.py PARENT SILENT_S LOG_FORMAT`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

BEAT_S = 5.0
"""Period of the server process's sign of life, in seconds."""
SILENT_S = 60.0
"""Seconds without a sign of life after which the server process is killed."""
CHECKS = 12
"""Waits in a row that must end without a sign of life, each for so much of SILENT_S: a pause of the
whole host or container ends at most one of them.
"""


class Watchdog:
    """The watchdog of this process."""

    def __init__(self, log_format: str, *, well: Callable[[], bool] = lambda: True) -> None:
        """`well`: whether the process does its work; while it does not, it gives no
        sign of life.
        """
        self._log_format = log_format
        self._well = well
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Launch the watchdog, and give signs of life in a thread (under gevent: a greenlet, which
        a blocked event loop stops as well) until this process ends.
        """
        self._process = self._launched()
        threading.Thread(target=self._keep, name="watchdog", daemon=True).start()

    def _launched(self) -> subprocess.Popen[bytes]:
        arguments = [str(os.getpid()), str(SILENT_S), self._log_format]
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={},  # no credentials
            start_new_session=True,  # Ctrl-C in a terminal reaches the server process alone
        )
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        return process

    def _keep(self) -> None:
        while True:
            time.sleep(BEAT_S)
            if self._well():
                self._beat()

    def _beat(self) -> None:
        """Give one sign of life.  A watchdog that has died is replaced."""
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            os.write(self._process.stdin.fileno(), b".")
        except BlockingIOError:
            return  # the pipe is full: the watchdog is frozen itself
        except BrokenPipeError:
            self._process.stdin.close()
            self._process.wait()
            self._process = self._launched()


def watch(parent: int, silent_s: float, log_format: str) -> None:
    """Kill the parent once it has given no sign of life on stdin for `silent_s`.
    Returns when the parent has ended.
    """
    silent = 0
    while os.getppid() == parent:
        ready, _, _ = select.select([0], [], [], silent_s / CHECKS)
        if not ready:
            silent += 1
        elif os.read(0, 1 << 16):
            silent = 0
        else:
            return
        if silent >= CHECKS and os.getppid() == parent:
            _log(
                log_format,
                f"process {parent}: no sign of life for {silent_s:g} s: killing it, to be started"
                " again",
            )
            os.kill(parent, signal.SIGKILL)


def _log(log_format: str, message: str) -> None:
    """Write a line in the form of app.telemetry.logs, which is not imported here."""
    now = datetime.now(UTC)
    if log_format == "json":
        fields = {
            "time": now.isoformat(timespec="milliseconds"),
            "level": "critical",
            "logger": "app.watchdog",
        }
        line = json.dumps({**fields, "message": message, "pid": os.getpid()})
    else:
        line = (
            f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03} CRITICAL app.watchdog: {message}"
        )
    with contextlib.suppress(
        OSError
    ):  # a log that takes nothing is no reason to let the process hang
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


if __name__ == "__main__":
    watch(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
