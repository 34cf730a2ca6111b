"""Fixtures of several files of integration tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from subprocess import Popen
from typing import Any
from uuid import UUID

import flask
import pytest
from celery import Celery
from flask.testing import FlaskClient
from playwright.sync_api import Browser, Page, sync_playwright

from app import enqueue
from app.client import Client
from app.domain.problem import Problem
from app.embedded import Services
from app.integrations import scoring
from app.settings import Settings
from app.store.collection import endpoints
from app.store.postgres.database import Database
from app.store.trajectory import problems
from tests.conftest import fresh
from tests.integration import browser_site, collecting, dataset_seed, fakes, reviewing, web_seed
from tests.integration.browser_site import LiveSite
from tests.integration.reviewing import World
from tests.integration.two_runs import TwoRuns
from tests.integration.two_runs import made as made_two_runs
from tests.integration.web_app import opened, served
from tests.integration.web_seed import History
from workers.worker.referee_client import RefereeClient


@pytest.fixture
def fake_worker(start_worker: Callable[..., Popen[bytes]]) -> Popen[bytes]:
    """A worker that only pretends: the candidate's source says its behaviour, see
    fake_worker.py.
    """
    return start_worker(module=fakes.WORKER)


@pytest.fixture
def made(settings: Settings) -> Iterator[Callable[..., flask.Flask]]:
    """`made(**changes)` is the web application with changed settings."""
    with ExitStack() as stack:

        def make(**changes: Any) -> flask.Flask:
            return stack.enter_context(opened(replace(settings, **changes)))

        yield make


@pytest.fixture
def site(made: Callable[..., flask.Flask]) -> FlaskClient:
    """A client of the web application over an empty database."""
    return made().test_client()


@pytest.fixture
def empty_pages(settings: Settings) -> Iterator[FlaskClient]:
    """The same; its exceptions reach the test."""
    with opened(settings, testing=True) as app:
        yield app.test_client()


@pytest.fixture
def connected(client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """The client of the test, which the reward functions use."""
    monkeypatch.setattr(scoring, "_client", lambda _pid, _url: client)
    return client


@pytest.fixture(scope="module")
def history(services: Services) -> Iterator[History]:
    """A seeded database, the same for all tests of a file."""
    with fresh(services) as settings:
        database = Database(settings.database_url or "")
        with database.begin() as connection:
            seeded = web_seed.seed(connection)
        database.dispose()
        yield History(settings=settings, seeded=seeded)


@pytest.fixture(scope="module")
def pages(history: History) -> Iterator[FlaskClient]:
    """A client of the web application over the seeded database; exceptions reach the test."""
    with opened(history.settings, testing=True) as app:
        yield app.test_client()


@pytest.fixture(scope="module")
def live_site(history: History) -> Iterator[LiveSite]:
    """A web server over the seeded database."""
    with browser_site.running(history) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium.  Not for the whole session: while it is open, its event loop runs
    in this thread.
    """
    if browser_site.CHROMIUM is None:
        pytest.skip("no Chromium on the PATH (apt-get install chromium)")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=browser_site.CHROMIUM, args=browser_site.FLAGS
        )
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser, live_site: LiveSite) -> Iterator[Page]:
    """A page of a browser without cookies; `live_site.complaints` has its complaints."""
    live_site.complaints.clear()
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.on(
        "console", lambda message: live_site.complaints.append(f"{message.type}: {message.text}")
    )
    opened.on("pageerror", lambda error: live_site.complaints.append(str(error)))
    opened.on("dialog", lambda dialog: live_site.complaints.append(f"dialog: {dialog.message}"))
    opened.on("requestfailed", live_site.failed)
    yield opened
    context.close()


@pytest.fixture(scope="module")
def two_runs(services: Services) -> Iterator[TwoRuns]:
    """Two runs of one model, for tests that only read."""
    with made_two_runs(services) as found:
        yield found


@pytest.fixture
def job_id(database: Database, broker: Celery) -> UUID:
    """A job that waits for a worker."""
    return enqueue.enqueue(database, broker, [fakes.request()])[0]


@pytest.fixture
def problem_id(database: Database) -> UUID:
    """A stored problem, and the endpoint `local` for collections of it."""
    with database.begin() as connection:
        endpoints.add(connection, collecting.LOCAL)
        problem = Problem(name="softmax", reference=collecting.REFERENCE, source_set="tests")
        return problems.add(connection, [problem])[0]


@pytest.fixture
def remote_url(settings: Settings) -> Iterator[str]:
    """URL of a server in a thread."""
    with served(settings) as url:
        yield url


@pytest.fixture
def remote_client(remote_url: str) -> Iterator[Client]:
    """The client over HTTP, to a server in a thread."""
    with Client(url=remote_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def filled(services: Services) -> Iterator[Database]:
    """A database with evaluations for datasets; tests of a file read it, or do not
    mind each other's exports.
    """
    with dataset_seed.filled(services) as database:
        yield database


@pytest.fixture
def own(database: Database) -> Database:
    """The same, for one test alone."""
    dataset_seed.fill(database)
    return database


@pytest.fixture
def world(database: Database) -> World:
    """Two people, and the evaluations that wait for their review."""
    return reviewing.seeded(database)


@pytest.fixture(scope="module")
def device_referee() -> Iterator[RefereeClient]:
    """A referee on the CPU device."""
    with RefereeClient("cpu") as started:
        started.start()
        yield started
