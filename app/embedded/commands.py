"""Our own processes on one machine: a worker for a device, and the web."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from dataclasses import replace
from typing import IO

from app import gpus
from app.settings import Settings

_PR_SET_PDEATHSIG = 1
SPARE_GREENLETS = 16
"""Greenlets of a worker that calls models, beyond its calls in flight: for decisions."""
_libc = ctypes.CDLL(None, use_errno=True)


def start_worker(
    settings: Settings,
    *,
    device_class: str = "cpu",
    device_index: int = 0,
    module: str = "workers.worker.celery_app",
) -> subprocess.Popen[bytes]:
    """A worker for one device, logging to `<state>/log`.  SIGTERM lets it finish its jobs.

    `module` is the Celery application that it runs."""
    own = replace(settings, device_class=device_class, device_index=device_index)
    return _start(
        own,
        f"worker-{device_class}-{device_index}",
        worker_command(own, module),
        worker_environment(own),
    )


def worker_environment(settings: Settings) -> dict[str, str]:
    """Environment of a worker: its settings, and for a GPU the binding to it."""
    bound = {} if settings.device_class == "cpu" else gpus.binding(settings.device_index)
    return {**settings.to_env(), **bound}


def worker_command(settings: Settings, module: str = "workers.worker.celery_app") -> list[str]:
    """The command line of a worker, which wants `worker_environment`.

    Workers do not talk to each other: without gossip and mingle one starts a second earlier."""
    name = f"{settings.device_class}-{settings.device_index}@%h"
    quiet = ["--without-gossip", "--without-mingle", "--loglevel", "INFO"]
    # --quiet: no banner, which is no line of a log.
    return [sys.executable, "-m", "celery", "--quiet", "-A", module, "worker", "-n", name, *quiet]


def start_generator(
    settings: Settings, *, endpoint: str, foreground: bool = False
) -> subprocess.Popen[bytes]:
    """A worker that calls the models of one endpoint, logging to `<state>/log`, or to this
    process's output.  It inherits the environment, which holds the endpoint's key.
    """
    own = replace(settings, endpoint=endpoint)
    name = None if foreground else f"generator-{endpoint}"
    return _start(own, name, generator_command(own), own.to_env())


def generator_command(settings: Settings) -> list[str]:
    """The command line of a worker that calls models."""
    name = f"generate-{settings.endpoint}@%h"
    quiet = ["--without-gossip", "--without-mingle", "--loglevel", "INFO"]
    pool = ["-P", "gevent", "-c", str(settings.calls + SPARE_GREENLETS)]
    return [
        sys.executable,
        "-m",
        "celery",
        "--quiet",
        "-A",
        "workers.generator.app",
        "worker",
        "-n",
        name,
        *pool,
        *quiet,
    ]


def start_web(
    settings: Settings, *, host: str = "127.0.0.1", port: int = 8000
) -> subprocess.Popen[bytes]:
    """The web UI and the API, logging to `<state>/log`."""
    # Through gevent.monkey, as app.web.serve would start itself.
    server = [sys.executable, "-m", "gevent.monkey", "--module", "app.web.serve"]
    command = [*server, "--host", host, "--port", str(port)]
    return _start(settings, "web", command, settings.to_env())


def _start(
    settings: Settings, name: str | None, command: list[str], environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """A process that writes to the log file of that name; None: to this process's output."""
    if name is None:
        return _process(command, environment, None)
    logs = settings.state_dir / "log"
    logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (logs / f"{name}.log").open("ab") as log:
        return _process(command, environment, log)


def _process(
    command: list[str], environment: dict[str, str], output: IO[bytes] | None
) -> subprocess.Popen[bytes]:
    ours = {key: value for key, value in os.environ.items() if not key.startswith("ASSAY_")}
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env={**ours, **environment},
        start_new_session=True,  # Ctrl-C reaches the parent, which then ends this process in order
        preexec_fn=_end_with_parent,  # nothing is left running where that one is killed
    )


def _end_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
