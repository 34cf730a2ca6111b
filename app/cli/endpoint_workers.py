"""Workers of endpoints that `assay up` and `assay collect serve` keep running: one for each
endpoint with a key in this environment.
"""

from __future__ import annotations

import time

import click

from app.cli import child_processes, supervisor
from app.cli.child_processes import Child, Generator
from app.domain.collection.call import EndpointConfig
from app.domain.request import RequestError
from app.endpoints.caller import key_of
from app.settings import Settings
from app.store.collection import endpoints
from app.store.postgres.database import Database, DatabaseUnavailableError

LOOK_S = 2.0
"""Period of the look for endpoints that were added or removed, in seconds."""


class EndpointWorkers:
    """One worker for each stored endpoint, also for those that are added later; it
    ends when its endpoint is removed.

    An endpoint without its key in this environment gets none, and a message says so once:
    another worker may have it.  `foreground`: the workers write to the output of this
    process in place of log files.
    """

    def __init__(self, settings: Settings, *, foreground: bool = False) -> None:
        assert settings.database_url is not None
        self._settings = settings
        self._foreground = foreground
        self._database = Database(settings.database_url, connections=1)
        self._known = True
        """False while the database does not say which endpoints there are."""
        self._kept: dict[str, tuple[Generator, supervisor.Kept]] = {}
        self._leaving: list[Child] = []
        self._without_key: dict[str, str] = {}
        self._looked_s = float("-inf")

    @property
    def children(self) -> list[Child]:
        """Every process that was started and may still run."""
        return [*(child for child, _ in self._kept.values()), *self._leaving]

    def keep(self, now_s: float) -> None:
        """Start workers of new endpoints, end those of removed ones, and start again
        whatever has ended.
        """
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            self._look()
        for _, kept in self._kept.values():
            kept.keep(now_s)

    def close(self) -> None:
        """Close the connection; the children are the caller's to stop."""
        self._database.dispose()

    def _look(self) -> None:
        try:
            with self._database.begin() as connection:
                stored = {each.config.name: each.config for each in endpoints.listed(connection)}
        except DatabaseUnavailableError as error:
            if self._known:  # once, not with every look
                click.echo(f"endpoints are not known at the moment: {error}", err=True)
            self._known = False
            return
        self._known = True
        for name in self._kept.keys() - stored.keys():
            child, _ = self._kept.pop(name)
            child.process.terminate()
            self._leaving.append(child)
        self._leaving = [child for child in self._leaving if child.process.poll() is None]
        for name, config in stored.items():
            if name not in self._kept and self._has_key(config):
                self._start(name)

    def _has_key(self, config: EndpointConfig) -> bool:
        """Test whether the endpoint can be called from here; the reason why not is printed once."""
        try:
            key_of(config)
        except RequestError as error:
            if self._without_key.get(config.name) != str(error):
                self._without_key[config.name] = str(error)
                click.echo(f"no worker for endpoint {config.name!r}: {error}", err=True)
            return False
        return True

    def _start(self, name: str) -> None:
        try:
            child = Generator(self._settings, name, foreground=self._foreground)
        except OSError as error:
            click.echo(f"the worker of endpoint {name!r} could not be started: {error}", err=True)
            return  # with the next look again
        self._kept[name] = child, supervisor.kept(child)
        click.echo(f"{child.name}: pid {child.process.pid}, log {child.log}")


def serve(settings: Settings) -> None:
    """Keep the workers of all endpoints until SIGTERM or Ctrl-C."""
    workers = EndpointWorkers(settings, foreground=True)
    with supervisor.Stopped() as stopped:
        try:
            while not stopped.wait(supervisor.WATCH_S):
                workers.keep(time.monotonic())
        finally:
            child_processes.stop(workers.children)
            workers.close()
