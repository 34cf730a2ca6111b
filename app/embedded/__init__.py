"""Postgres and Redis of Assay's own for one machine (`assay demo`, `assay up`, tests): the same
code path as in production, only the URLs differ.

The services in a state folder are shared by every process that asks for them.  The first process
starts them, the last one to leave stops them; both are decided under file locks, which the kernel
drops when a process is killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from app.embedded import commands, os_user
from app.embedded.binaries import MissingBinaryError
from app.embedded.process_lookup import ServerError
from app.embedded.servers import Postgres, Valkey
from app.settings import SERVICES_FILE, Settings

__all__ = [
    "MissingBinaryError",
    "Postgres",
    "ServerError",
    "Services",
    "Valkey",
    "make_state_dir",
    "start_generator",
    "start_web",
    "start_worker",
    "worker_command",
    "worker_environment",
]

start_worker = commands.start_worker
start_web = commands.start_web
start_generator = commands.start_generator
generator_command = commands.generator_command
worker_command = commands.worker_command
worker_environment = commands.worker_environment


class Services:
    """PostgreSQL and Valkey in the state folder, migrated, for as long as this object is open.

    A URL that the settings name is used as it is, and no server is started for it."""

    def __init__(self, settings: Settings) -> None:
        self._given = settings
        self._state = settings.state_dir.absolute()  # it becomes part of URLs
        self.servers: list[Postgres | Valkey] = []
        """The servers that this object has started or found, once it is open."""
        self._presence: int | None = None
        self._started = False
        self.settings = settings
        """Settings with both URLs, once started."""

    @classmethod
    def start(cls, settings: Settings) -> Services:
        """Attach to the services in the state folder, or start them; the same as
        entering the context.
        """
        return cls(settings).__enter__()

    def __enter__(self) -> Services:
        if self._started:
            return self
        try:
            self._open()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the servers, unless another process still has them open."""
        self._started = False
        if self._presence is None:
            return
        with _locked(self._state / "start.lock"):
            try:
                fcntl.flock(self._presence, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass  # another process is present
            else:
                (self._state / SERVICES_FILE).unlink(missing_ok=True)
                for server in reversed(self.servers):
                    server.stop()
            finally:
                os.close(self._presence)
                self._presence = None

    def start_again(self, server: Postgres | Valkey) -> None:
        """One of `servers` that has ended.  Raises ServerError."""
        with _locked(self._state / "start.lock"):
            server.start()

    def _open(self) -> None:
        if self._given.database_url is None or self._given.broker_url is None:
            make_state_dir(self._state)
            with _locked(self._state / "start.lock"):
                self._presence = _open(self._state / "present.lock")
                fcntl.flock(self._presence, fcntl.LOCK_SH)
                self._start()
        assert self.settings.database_url is not None
        from app.store.postgres import (
            migrate,  # Alembic: a sixth of a command's start, and most commands start no server
        )

        migrate.upgrade(self.settings.database_url)
        self._started = True

    def _start(self) -> None:
        (self._state / "log").mkdir(mode=0o700, exist_ok=True)
        user = os_user.choose()
        user.check_reach(self._state)
        password = _password(self._state / "password")
        postgres = Postgres(self._state, user, password, _password(self._state / "admin_password"))
        valkey = Valkey(self._state, user, password)
        self.servers = [
            server for server, url in _wanted(self._given, postgres, valkey) if url is None
        ]
        for server in self.servers:
            server.start()
        self.settings = replace(
            self._given,
            database_url=self._given.database_url or postgres.url,
            broker_url=self._given.broker_url or valkey.url,
        )
        _publish(self._state / SERVICES_FILE, self.settings)


def _wanted(
    given: Settings, postgres: Postgres, valkey: Valkey
) -> tuple[tuple[Postgres | Valkey, str | None], ...]:
    return ((postgres, given.database_url), (valkey, given.broker_url))


def make_state_dir(path: Path) -> None:
    """Make the folder, 0711, and make sure that no other user can change its
    contents: it may lie in /var/tmp.
    """
    if not path.exists():
        path.mkdir(parents=True)
        path.chmod(0o711)  # not left to the umask: under root, the servers' user must pass
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PermissionError(
            f"{path}: expected a folder of uid {os.geteuid()} that only it can write to, "
            f"got {stat.filemode(found.st_mode)} of uid {found.st_uid}"
        )


def _password(path: Path) -> str:
    """The servers' password, made once, readable by us alone."""
    try:
        return path.read_text()
    except FileNotFoundError:
        _write(path, secrets.token_hex(16))
        return path.read_text()


def _publish(path: Path, settings: Settings) -> None:
    """Write both URLs down, unless they are there: commands that make room run on a
    full disk, too.
    """
    text = json.dumps({"database_url": settings.database_url, "broker_url": settings.broker_url})
    if not path.exists() or path.read_text() != text:
        _write(path, text)


def _write(path: Path, text: str) -> None:
    """Whole or not at all, for our eyes only."""
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    unfinished.rename(path)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    file = _open(path)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
