"""The web application in this process, a server of it, and a thread that does a worker's work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from uuid import UUID

import sqlalchemy as sa
from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

from app.settings import Settings
from app.store import tables
from app.store.evaluation import evaluations
from app.store.postgres.database import Database
from app.store.queue import leases
from app.web import create_app
from tests.integration import fakes

UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"
"""No problem's id; always the same, so that every process collects the same tests."""
BODY = {"reference": "r", "candidate": "c", "backend": "torch"}


@contextmanager
def opened(settings: Settings, *, testing: bool = False) -> Iterator[Flask]:
    """A web process of its own, as far as the database can tell.  `testing`:
    exceptions reach the caller.
    """
    app = create_app(settings)
    app.testing = testing
    try:
        yield app
    finally:
        parts = app.extensions["assay"]
        parts["watch"].close()
        parts["submit_batcher"].broker.close()
        parts["database"].dispose()


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """URL of a server in a thread."""

    class Quiet(WSGIRequestHandler):
        def log(self, *args: object) -> None:
            pass

    with opened(settings) as app:
        server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@contextmanager
def worker(database: Database, finish: Callable[[Database, UUID], None]) -> Iterator[None]:
    """A thread that ends whatever is queued."""
    over = Event()

    def work() -> None:
        while not over.wait(0.02):
            with database.begin() as connection:
                queued = connection.execute(
                    sa.select(tables.jobs.c.job_id).where(tables.jobs.c.state == "queued")
                )
                found = list(queued.scalars())
            for job_id in found:
                finish(database, job_id)

    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def incorrect(database: Database, job_id: UUID) -> None:
    """The candidate is wrong."""
    with database.begin() as connection:
        lease = leases.claim(connection, job_id, "me", 30)
        assert lease
        evaluations.add(
            connection, lease, worker="w", evaluation=fakes.incorrect(), verdict=fakes.clean()
        )


def broken(database: Database, job_id: UUID) -> None:
    """The referee is lost."""
    with database.begin() as connection:
        lease = leases.claim(connection, job_id, "me", 30)
        assert lease
        leases.fail(connection, lease, "referee_lost", "the referee is gone")
