"""BROWSE: the web server, `python -m app.web.serve --host 127.0.0.1 --port 8000`.

One process of gevent's WSGI server.  Trainers hold hundreds of requests open until a kernel is
evaluated (`?wait=25`, `POST /v1/reward`, events): as threads they would cost megabytes and switches
each, as greenlets some kilobytes.  Views stay plain blocking code, which no async framework would
let them be: psycopg, the Redis client and every wait give way to other requests by themselves,
because gevent replaced the sockets underneath before anything was imported.  For the same reason
this module starts itself again where it was not started through gevent.monkey.
"""

from __future__ import annotations

import gc
import logging
import os
import resource
import signal
import socket
import sys
import time

import click
import flask
from gevent import monkey, pool
from gevent import signal_handler as on_signal

from app.settings import ServicesNotRunningError, Settings, located
from app.store.postgres.database import Database
from app.store.user import users
from app.telemetry import logs, tracing
from app.watchdog import Watchdog
from app.web import connections, create_app, export_subprocess
from app.web.identity import addresses

MODULE = "app.web.serve"
CONNECTIONS = 4_000
"""Connections at once; further ones wait in the kernel's queue."""
OTHER_FILES = 500
"""Open files beside connections: the database's, pipes, files that are sent."""
LEAST_FILES = 1_000
"""Open files without which the server does not start."""
STOP_S = 10.0
"""Seconds that running requests have to end when the server is stopped."""
LINGER_S = 1.0
"""A server that stops goes on answering on open connections for at least this long, in seconds: a
client that has just sent a request down one would take its end for the answer.
"""

_log = logging.getLogger(MODULE)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535))
def main(host: str, port: int) -> None:
    """Serve the web UI and the API until interrupted.  Settings come from ASSAY_* variables;
    without ASSAY_DATABASE_URL the embedded services must be running.

    On an address that others can reach, a user with a login must exist: without
    users this does not start.
    """
    try:
        settings = located(Settings.from_env())
        logs.configure(settings.log_format)
        tracing.configure("assay-web")
        check_closed(settings, host)
        most = connections_allowed()
        app = create_app(settings)
    except (ValueError, ServicesNotRunningError, OSError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error
    server = connections.Server(
        (host, port),
        app,
        spawn=pool.Pool(most),
        error_log=_log,
        backlog=1024,
        refused=app.extensions["assay"]["request_metrics"].refused,
        per_address=None if settings.trusted_proxies else connections.PER_ADDRESS,
    )
    server.init_socket()
    # Connections inherit it.  A response is sent in two parts, head and body, and without it the
    # second waits until the client acknowledges the first, which a client does 40 ms later.
    server.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for number in (signal.SIGTERM, signal.SIGINT):
        on_signal(number, stop, server, app)
    export_subprocess.prepare()
    # Objects made so far stay: a page that makes tens of thousands of objects need
    # not search them for garbage.
    gc.collect()
    gc.freeze()
    Watchdog(settings.log_format).start()
    server.serve_forever(stop_timeout=STOP_S)


def connections_allowed() -> int:
    """CONNECTIONS, or as many as the limit on open files leaves once it is raised: a usual one
    of 1,024 would end in errors of accept(2), which take the server away from everybody.
    Raises OSError below LEAST_FILES.
    """
    wanted = CONNECTIONS + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if most < LEAST_FILES:
        raise OSError(f"ulimit -Hn: expected at least {LEAST_FILES} open files, got {most}")
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < wanted:
        _log.warning(
            "ulimit -Hn is %d: at most %d connections, not %d",
            most,
            most - OTHER_FILES,
            CONNECTIONS,
        )
    return most - OTHER_FILES


def stop(server: connections.Server, app: flask.Flask) -> None:
    """Take no more connections, answer clients that wait for a job (503, or finished
    results), let the rest finish.

    A second signal ends the server at once.
    """
    if server.stopping:
        server.stop(0)
        return
    server.stopping = True
    server.stop_accepting()
    server.socket.close()  # a client that comes now is refused, which every client tries again
    app.extensions["assay"]["watch"].stop()
    app.extensions["assay.live"]["feed"].stop()
    begun = time.monotonic()
    while (passed_s := time.monotonic() - begun) < STOP_S and (
        server.busy.count or passed_s < LINGER_S
    ):
        time.sleep(0.02)
    server.stop(0)


def check_closed(settings: Settings, host: str) -> None:
    """Raise RuntimeError where strangers could reach a server that requires no login."""
    if addresses.is_loopback(host):
        return
    database = Database(settings.database_url or "")
    try:
        with database.begin() as connection:
            if users.exist(connection):
                return
    finally:
        database.dispose()
    raise RuntimeError(
        f"--host {host}: expected a loopback address while there are no users, got one that others"
        " can reach; add an admin first: assay user add NAME --role admin"
    )


if __name__ == "__main__":
    if not monkey.is_module_patched("socket"):
        command = [sys.executable, "-m", "gevent.monkey", "--module", MODULE, *sys.argv[1:]]
        os.execv(sys.executable, command)  # noqa: S606
    main()
