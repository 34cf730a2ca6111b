"""The two servers of one machine, each in a folder of its own, reached by Unix sockets only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from urllib.parse import quote

import psycopg
import redis
import sqlalchemy as sa
from psycopg import sql

from app.embedded import binaries, process_lookup
from app.embedded.os_user import Account
from app.store.postgres.database import DRIVER, libpq_url

START_TIMEOUT_S = 60.0
"""Recovery after a crash comes before readiness."""
STOP_TIMEOUT_S = 30.0
"""Seconds for a server to write its data and end; then it is killed."""
SOCKET_PATH_BYTES = 107
"""Longest path of a Unix socket (sun_path on Linux, less the final NUL)."""
NAME = "assay"
"""Name of the database and of its role, which is no superuser: a worker or web that is taken over
reaches no file of the server's host and starts no program there.
"""
ADMIN = "postgres"
"""The superuser; its password is given to no worker and no web server.  A state folder of an
older version has none: there the role is the superuser, which PostgreSQL does not let it cease
to be (`assay doctor` says so).
"""


class Postgres:
    """PostgreSQL with its data in `<state>/postgres/data`."""

    name = "PostgreSQL"

    def __init__(self, state: Path, account: Account, password: str, admin_password: str) -> None:
        self._home = state / "postgres"
        self._data = self._home / "data"
        self.log = state / "log" / "postgres.log"
        self._copies = state / "binaries"
        self._account = account
        self._passwords = {NAME: password, ADMIN: admin_password}

    @property
    def url(self) -> str:
        """Database URL for SQLAlchemy."""
        return self._address(NAME, NAME).render_as_string(hide_password=False)

    @property
    def is_alive(self) -> bool:
        """True if the server's process runs."""
        return process_lookup.alive_in(self._data, self._data / "postmaster.pid") is not None

    def start(self) -> None:
        """Start the server unless it runs; the first time, make its data and its database."""
        _check_socket(self._home / ".s.PGSQL.5432")
        if self.is_alive:
            return
        self._account.own(self._home)
        folder = self._binaries()
        if not self._data.exists():
            self._initialise(folder)
        process_lookup.wait_until_unused(self._data, STOP_TIMEOUT_S)
        # No server runs there: a pid file is left from a crash, and the pid may be
        # another program's by now.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        (self._home / ".s.PGSQL.5432.lock").unlink(missing_ok=True)
        process = self._launch(folder)
        process_lookup.wait_until(
            self._ready, process, name=self.name, log=self.log, timeout_s=START_TIMEOUT_S
        )
        self._make_database()

    def stop(self) -> None:
        """Fast shutdown: connections are ended, everything committed is on disk."""
        pid = process_lookup.serving(self._data, self._data / "postmaster.pid")
        if pid is not None:
            process_lookup.stop(
                pid, self._data, signal.SIGINT, name=self.name, timeout_s=STOP_TIMEOUT_S
            )

    def _binaries(self) -> Path:
        version = self._data / "PG_VERSION"
        folder = binaries.postgres(int(version.read_text()) if version.exists() else None)
        return binaries.runnable(folder / "initdb", self._account, self._copies).parent

    def _initialise(self, folder: Path) -> None:
        """Create the cluster under another name first: the remains of a killed
        `initdb` are thrown away.
        """
        unfinished = self._home / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        password_file = self._home / "password.new"
        password_file.unlink(missing_ok=True)
        password_file.touch(mode=0o600)
        password_file.write_text(self._passwords[ADMIN])
        os.chown(password_file, self._account.uid, self._account.gid)
        command = [
            *(
                str(folder / "initdb"),
                "-D",
                str(unfinished),
                "-U",
                ADMIN,
                "--pwfile",
                str(password_file),
            ),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions"),
        ]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env=_environment(),
            **self._account.popen(),
        )
        password_file.unlink()
        if done.returncode:
            raise process_lookup.ServerError(
                f"initdb failed with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        unfinished.rename(self._data)

    def _launch(self, folder: Path) -> subprocess.Popen[bytes]:
        options = {
            "listen_addresses": "",
            "unix_socket_directories": self._home,
            "unix_socket_permissions": "0700",
            "fsync": "on",
            "max_connections": 400,  # two for every slot of eight GPUs, and the web's
            "timezone": "UTC",
            "log_timezone": "UTC",
        }
        settings = [f"--{name}={value}" for name, value in options.items()]
        command = [str(folder / "postgres"), "-D", str(self._data), *settings]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=_environment(),
                # Ctrl-C in a terminal reaches this process; its clients stop first
                start_new_session=True,
                **self._account.popen(),
            )
        return process_lookup.adopt(process)

    def _ready(self) -> bool:
        try:
            psycopg.connect(self._url(ADMIN, "postgres"), connect_timeout=5).close()
        except psycopg.OperationalError as error:
            return _is_refused(error)  # it answers
        return True

    def _make_database(self) -> None:
        """Create the database with its role.  In a state folder without an ADMIN the
        role is there already.
        """
        try:
            connection = psycopg.connect(self._url(ADMIN, "postgres"), autocommit=True)
        except psycopg.OperationalError as error:
            if not _is_refused(error):
                raise
            connection = psycopg.connect(self._url(NAME, "postgres"), autocommit=True)
        name, password = sql.Identifier(NAME), sql.Literal(self._passwords[NAME])
        with connection:
            if (
                connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [NAME]).fetchone()
                is None
            ):
                # CREATEDB: for a copy of the database beside it.
                connection.execute(
                    sql.SQL("CREATE ROLE {} LOGIN CREATEDB PASSWORD {}").format(name, password)
                )
            if (
                connection.execute("SELECT FROM pg_database WHERE datname = %s", [NAME]).fetchone()
                is None
            ):
                connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, name))

    def _url(self, role: str, database: str) -> str:
        return libpq_url(self._address(role, database))

    def _address(self, role: str, database: str) -> sa.URL:
        return sa.URL.create(
            DRIVER,
            username=role,
            password=self._passwords[role],
            database=database,
            query={"host": str(self._home)},
        )


class Valkey:
    """A Redis-protocol server with its append-only file in `<state>/redis`."""

    name = "Valkey"

    def __init__(self, state: Path, account: Account, password: str) -> None:
        self._home = state / "redis"
        self._socket = self._home / "valkey.sock"
        self._pid_file = self._home / "valkey.pid"
        self.log = state / "log" / "valkey.log"
        self._copies = state / "binaries"
        self._account = account
        self._password = password

    @property
    def url(self) -> str:
        """Broker URL for Celery."""
        return f"redis+socket://:{self._password}@{quote(str(self._socket))}?virtual_host=0"

    @property
    def is_alive(self) -> bool:
        """True if the server's process runs."""
        return process_lookup.alive_in(self._home, self._pid_file) is not None

    def start(self) -> None:
        """Start the server unless it runs."""
        _check_socket(self._socket)
        if self.is_alive:
            return
        self._account.own(self._home)
        binary = binaries.runnable(binaries.redis(), self._account, self._copies)
        process_lookup.wait_until_unused(self._home, STOP_TIMEOUT_S)
        self._pid_file.unlink(missing_ok=True)  # left by an earlier run, perhaps as another user
        process = self._launch(binary)
        process_lookup.wait_until(
            self._ready, process, name=self.name, log=self.log, timeout_s=START_TIMEOUT_S
        )

    def stop(self) -> None:
        """Stop after the queues are on disk."""
        pid = process_lookup.serving(self._home, self._pid_file)
        if pid is not None:
            process_lookup.stop(
                pid, self._home, signal.SIGTERM, name=self.name, timeout_s=STOP_TIMEOUT_S
            )

    def _launch(self, binary: Path) -> subprocess.Popen[bytes]:
        lines = [
            "port 0",
            f"unixsocket {_quoted(self._socket)}",
            "unixsocketperm 700",
            f"dir {_quoted(self._home)}",
            f"pidfile {_quoted(self._pid_file)}",
            "appendonly yes",
            'save ""',
            "maxmemory-policy noeviction",
            # limit of a message; Assay's have 1 KB, and a worker reads each whole
            "proto-max-bulk-len 1mb",
            f"requirepass {self._password}",
        ]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [
                    binary,
                    "-",
                ],  # the configuration comes in by stdin: the password is on no command line
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._home,
                env=_environment(),
                start_new_session=True,
                **self._account.popen(),
            )
        assert process.stdin is not None
        process.stdin.write(os.fsencode("\n".join(lines)))
        process.stdin.close()
        return process_lookup.adopt(process)

    def _ready(self) -> bool:
        client = redis.Redis(unix_socket_path=str(self._socket), password=self._password)
        try:
            return bool(client.ping())
        except (redis.ConnectionError, redis.BusyLoadingError):
            return False
        finally:
            client.close()


def _quoted(path: Path) -> str:
    """A path as a value in Valkey's configuration."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _is_refused(error: psycopg.OperationalError) -> bool:
    """Return whether the server runs and refuses the role."""
    return "authentication failed" in str(error)


def _environment() -> dict[str, str]:
    """Minimal environment: no secrets, no locale, no LD_LIBRARY_PATH."""
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def _check_socket(path: Path) -> None:
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise ValueError(
            f"{path}: expected at most {SOCKET_PATH_BYTES} bytes for a socket; shorten"
            " ASSAY_STATE_DIR"
        )
