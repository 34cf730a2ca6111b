"""Child processes that a verb keeps running: the web UI and workers."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import click

from app import embedded
from app.cli import errors
from app.settings import WEB_URL_FILE, Settings

RESTARTS = 5
"""A child that ends more often than this is not started again: its log says why."""
STOP_S = 30.0
"""Seconds that a child may take to finish its work; then it is killed, and its job
runs again later.
"""


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device to evaluate on, and the size of its worker."""

    device_class: str
    index: int
    slots: int | None = None
    """Evaluations in flight; None leaves it to the settings."""


class Child(ABC):
    """A process that is started again when it ends by itself."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.settings = settings
        self._restarts = 0
        self.process = self.start()

    @abstractmethod
    def start(self) -> subprocess.Popen[bytes]:
        """A new process."""

    @property
    @abstractmethod
    def log(self) -> Path:
        """Where it writes."""

    def stopped(self) -> None:  # noqa: B027 (most leave nothing behind)
        """Clean up after its last process has ended."""

    def watch(self) -> None:
        """Start it again where it ended, and say so.  Raises InfrastructureError
        once it has ended too often.
        """
        code = self.process.poll()
        if code is None:
            return
        if code == errors.INFRASTRUCTURE:  # it will not serve, and trying again does not help
            raise errors.InfrastructureError(f"{self.name} does not serve: {self._last_words()}")
        what = f"{self.name} ended with {_ended(code)}"
        if self._restarts == RESTARTS:
            raise errors.InfrastructureError(
                f"{what}, for the {RESTARTS + 1}th time; its log is {self.log}"
            )
        self._restarts += 1
        click.echo(
            f"{what}; starting it again ({self._restarts} of {RESTARTS}; its log is {self.log})",
            err=True,
        )
        self.process = self.start()

    def how_it_ended(self) -> str | None:
        """Description of the process's end; None while it runs."""
        code = self.process.poll()
        if code is None:
            return None
        if code == errors.INFRASTRUCTURE:
            return f"does not serve: {self._last_words()}"
        return f"ended with {_ended(code)}"

    def start_again(self) -> None:
        """A new process in place of the one that has ended."""
        self.process = self.start()

    def _last_words(self) -> str:
        if not self.log.is_file():
            return "see its lines above"
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"its log {self.log} is empty"


class Web(Child):
    """The web UI."""

    def __init__(self, settings: Settings, *, host: str, port: int) -> None:
        _check_free(host, port)
        self._host = host
        self._port = port
        super().__init__("web", settings)

    def start(self) -> subprocess.Popen[bytes]:
        """A new process.  Other processes of this machine read where it is, for the
        links in results.
        """
        (self.settings.state_dir / WEB_URL_FILE).write_text(self.settings.web_url)
        return embedded.start_web(self.settings, host=self._host, port=self._port)

    def stopped(self) -> None:
        """Mark the child as gone."""
        (self.settings.state_dir / WEB_URL_FILE).unlink(missing_ok=True)

    @property
    def log(self) -> Path:
        """Where it writes."""
        return self.settings.state_dir / "log" / "web.log"


class Worker(Child):
    """A worker for one device."""

    def __init__(self, settings: Settings, device: Device) -> None:
        self._device = device
        super().__init__(f"{device.device_class}-{device.index}", settings)

    def start(self) -> subprocess.Popen[bytes]:
        """A new process."""
        settings = replace(self.settings, slots=self._device.slots or self.settings.slots)
        return embedded.start_worker(
            settings, device_class=self._device.device_class, device_index=self._device.index
        )

    @property
    def log(self) -> Path:
        """Where it writes."""
        return self.settings.state_dir / "log" / f"worker-{self.name}.log"


class Generator(Child):
    """A worker that calls the models of one endpoint.  `foreground`: it writes to
    this process's output.
    """

    def __init__(self, settings: Settings, endpoint: str, *, foreground: bool = False) -> None:
        self._endpoint = endpoint
        self._foreground = foreground
        super().__init__(f"generator {endpoint}", settings)

    def start(self) -> subprocess.Popen[bytes]:
        """A new process."""
        return embedded.start_generator(
            self.settings, endpoint=self._endpoint, foreground=self._foreground
        )

    @property
    def log(self) -> Path:
        """Where it writes."""
        if self._foreground:
            return Path("/dev/stderr")
        return self.settings.state_dir / "log" / f"generator-{self._endpoint}.log"


def stop(children: Sequence[Child]) -> None:
    """Ask the children to end, all at once, and kill those still running after STOP_S, or at once
    where Ctrl-C comes a second time: left behind, they would lose their servers.
    """
    processes = [child.process for child in children]
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + STOP_S
    try:
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for child in children:
            child.stopped()


def _ended(code: int) -> str:
    """A process's end for people."""
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _check_free(host: str, port: int) -> None:
    """Raise InfrastructureError where the address cannot be listened on, before the
    server fails in its log.
    """
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        raise errors.InfrastructureError(
            f"{host}:{port}: expected a free port, got {os.strerror(error.errno or 0)!r}; choose"
            " one with --port"
        ) from error
