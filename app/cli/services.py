"""The servers that a verb works with: those that the settings name, else the
embedded ones; and workers for them.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

import click

from app import broker, embedded, routing
from app.broker import BrokerUnavailableError
from app.cli import child_processes, errors
from app.client import Client
from app.client.outage import Outage
from app.endpoints.caller import key_of
from app.settings import Settings, with_web_url
from app.store.collection import endpoints as endpoint_store
from app.store.collection import workers as endpoint_workers
from app.store.postgres.database import DatabaseUnavailableError
from app.store.queue import devices


def _allow_weak_sandbox(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.obj = replace(ctx.obj, allow_weak_sandbox=True)


weak_sandbox_option = click.option(
    "--allow-weak-sandbox",
    is_flag=True,
    expose_value=False,
    callback=_allow_weak_sandbox,
    help=(
        "Let a worker that is started here serve although its self-test found acts that a candidate"
        " could perform; every evaluation lists them.  Or ASSAY_ALLOW_WEAK_SANDBOX=1."
    ),
)
"""For verbs that start workers: it goes into their settings."""


@contextmanager
def opened(settings: Settings) -> Iterator[Settings]:
    """The settings with both URLs; see `opened_with`."""
    with opened_with(settings) as (running, _):
        yield running


@contextmanager
def opened_with(settings: Settings) -> Iterator[tuple[Settings, embedded.Services | None]]:
    """The settings with both URLs, and the embedded services, which are used without them: attached
    to where they run, else started, and stopped again at the end.
    """
    if settings.database_url and settings.broker_url:
        yield settings, None
    else:
        with _terminated_in_order(), embedded.Services(settings) as services:
            yield services.settings, services


@contextmanager
def _terminated_in_order() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that started processes are stopped; by
    default Python would end at once.
    """
    if (
        signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def client(settings: Settings) -> Iterator[Client]:
    """A client of the servers that `opened` gives; its links lead to the web UI that runs here."""
    with opened(with_web_url(settings)) as running, Client(running) as connected:
        yield connected


def online(client: Client, device_class: str) -> list[devices.Device]:
    """Devices of that class with a live worker."""
    with client.database.begin() as connection:
        return [
            device
            for device in devices.listed(connection)
            if device.device_class == device_class and device.state == "online"
        ]


class NoWorkerError(errors.InfrastructureError):
    """No worker of a device class is online, and none may be started here."""


class Worker:
    """Ensures a worker for the device class while open: one that is online, else one started here.

    A worker is started only for the CPU and only with the embedded services: elsewhere it is not
    for a command line to decide which machine runs code that a model wrote.
    """

    def __init__(self, settings: Settings, client: Client, device_class: str) -> None:
        self._may_start = device_class == "cpu" and not (
            settings.database_url and settings.broker_url
        )
        self._client = client
        self._device_class = device_class
        self._child: child_processes.Worker | None = None
        self._database_outage, self._broker_outage = Outage(), Outage()

    def __enter__(self) -> Worker:
        self.check()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._child is None:
            return
        if kind is KeyboardInterrupt:
            click.echo("stopping the worker; Ctrl-C again kills it", err=True)
        child_processes.stop([self._child])

    def check(self) -> None:
        """Start a worker where none is online, and restart one that this command started.

        Raises InfrastructureError where workers of the device are started elsewhere or restarts do
        not help, and BrokerUnavailableError where no worker could hear of a job.
        """
        self._check_broker()
        if self._child is not None:
            self._child.watch()
        elif not self._online():
            if not self._may_start:
                raise NoWorkerError(
                    f"no worker for {self._device_class!r} is online: queued jobs wait for one"
                    " (`assay workers` lists devices, `assay workers run --gpu"
                    f" {self._device_class}` serves one)"
                )
            device = child_processes.Device(device_class=self._device_class, index=0)
            self._child = child_processes.Worker(self._client.settings, device)

    def _online(self) -> bool:
        """True if a worker is online, and while PostgreSQL restarts."""
        try:
            found = bool(online(self._client, self._device_class))
        except DatabaseUnavailableError:
            if not self._database_outage.may_pass():
                raise
            return True
        self._database_outage.end()
        return found

    def _check_broker(self) -> None:
        """Raise BrokerUnavailableError unless Redis answers or restarts."""
        try:
            broker.depth(self._client.broker, routing.queue_for(self._device_class))
        except BrokerUnavailableError:
            if not self._broker_outage.may_pass():
                raise
        else:
            self._broker_outage.end()


def unserved(client: Client, endpoints: Sequence[str]) -> list[str]:
    """Endpoints without a live worker."""
    with client.database.begin() as connection:
        alive = {each.endpoint for each in endpoint_workers.online(connection)}
    return [name for name in endpoints if name not in alive]


class Generators:
    """Ensures workers for endpoints while open: those that are online, else ones started here,
    under the same rule as Worker.  `device`: the worker of their evaluations, open as long.
    """

    def __init__(
        self, settings: Settings, client: Client, endpoints: Sequence[str], device: Worker
    ) -> None:
        self._may_start = not (settings.database_url and settings.broker_url)
        self._client = client
        self._endpoints = endpoints
        self._device = device
        self._children: list[child_processes.Child] = []

    def __enter__(self) -> Generators:
        for name in self._endpoints:
            with self._client.database.begin() as connection:
                config, alive = (
                    endpoint_store.get(connection, name),
                    endpoint_workers.online(connection, name),
                )
            if alive:
                continue
            if not self._may_start:
                raise NoWorkerError(
                    f"no worker for the endpoint {name!r} is online: calls wait for one (`assay"
                    f" collect serve {name}`)"
                )
            key_of(config)  # named before anything is spent
            self._children.append(child_processes.Generator(self._client.settings, name))
        return self

    def __exit__(self, *_: object) -> None:
        child_processes.stop(self._children)

    def check(self) -> None:
        """Restart children that have ended.  Raises InfrastructureError where
        restarts do not help.
        """
        self._device.check()
        for child in self._children:
            child.watch()
