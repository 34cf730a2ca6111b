"""Real servers for tests: one PostgreSQL and one Valkey a session, a database of its
own for every test.

services    the embedded services of the session, in a folder of their own that is
            removed at the end
settings    of a fresh, migrated database and an emptied broker
database, broker, client
start_worker    starts real Celery workers and ends them after the test
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from celery import Celery
from hypothesis import HealthCheck
from hypothesis import settings as properties

from app import broker as brokers
from app import embedded
from app.client import Client
from app.domain import ids
from app.embedded import Services
from app.settings import Settings
from app.store.postgres.database import Database
from tests.waiting import until

# A shell's job in the background ignores SIGINT, and so would the commands that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Each process of the tests gets one thread for torch: beside other busy processes, threads that
# wait for each other took 20 times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Hypothesis limits an example to 200 ms and counts slow generation as a failure:
# both happen on a busy machine.
properties.register_profile(
    "untimed",
    parent=properties.default,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
properties.load_profile("untimed")


LONGEST = (
    "test_zoo_runs",
    "test_narrow_products",
    "test_cli_servers",
    "test_every_page",
    "test_sandbox_hosts",
    "test_bad_input",
    "test_isolation",
    "test_worker",
    "test_slots",
    "test_deaths",
    "test_journeys",
    "test_kernelgym_client",
    "test_odd_data",
    "test_export_again",
    "test_browser_controls",
    "test_isolation_attacks",
    "test_kernelgym_failures",
    "test_cli",
    "test_migrations",
    "test_rollouts",
    "test_dataset_pages",
    "test_compiled_baselines",
    "test_planted_labels",
    "test_scaled_factors",
    "test_trainers",
    "test_lists",
    "test_by_cases",
    "test_browser_pages",
    "test_embedded",
    "test_perturbed_weights",
    "test_listed_grids",
    "test_kernelgym_wire",
    "test_device_time",
    "test_web",
    "test_browser_charts",
    "test_connections",
    "test_where_in_postgres",
    "test_one_answer",
    "test_export_jobs",
    "test_export_recorded",
    "test_compared_inputs",
    "test_review_pages",
    "test_client_http",
    "test_collect_interfaces",
    "test_filter_walk",
)
"""Files that take more than ten seconds, longest first.  They are begun first: a long one that one
process begins last leaves the other without work.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


@pytest.fixture(autouse=True, scope="module")
def small_heap() -> None:
    """Leave all that exists before a file's tests out of garbage collection, as a zygote does:
    shims that run in this process collect before each model that they make (workers/shims/heap.py).
    """
    gc.collect()
    gc.freeze()


SHARED_MEMORY = Path("/dev/shm")
SERVERS_BYTES = 2 << 30
"""Free bytes that the servers' data may need."""


def fast_folder(prefix: str) -> Path:
    """A new folder in memory where that has room and programs may run in it, else on the disk: in
    memory neither syncing nor copying takes the servers time.
    """
    where = Path("/var/tmp")
    if os.access(SHARED_MEMORY, os.W_OK):
        status = os.statvfs(SHARED_MEMORY)
        if (
            status.f_bavail * status.f_frsize > 2 * SERVERS_BYTES
            and not status.f_flag & os.ST_NOEXEC
        ):
            where = SHARED_MEMORY
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=where))
    folder.chmod(0o711)
    return folder


@pytest.fixture(autouse=True, scope="module")
def all_cores() -> Iterator[None]:
    """A referee in this process binds it to some cores; the tests of the next file
    have all of them again.
    """
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


@pytest.fixture(scope="session")
def services() -> Iterator[Services]:
    folder = fast_folder("assay-test-")
    try:
        with Services(Settings(state_dir=folder)) as running:
            yield running
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def settings(services: Services) -> Iterator[Settings]:
    with fresh(services) as settings:
        yield settings


@contextmanager
def fresh(services: Services) -> Iterator[Settings]:
    """A copy of the migrated database, which costs less than migrating, and a folder of its own for
    logs; quick leases and sweeps.
    """
    name = f"test_{ids.new_id().hex}"
    template = sa.make_url(services.settings.database_url or "")
    administrate(
        template, f"CREATE DATABASE {name} TEMPLATE {template.database} STRATEGY FILE_COPY"
    )
    empty_broker(services.settings)
    url = template.set(database=name).render_as_string(hide_password=False)
    folder = services.settings.state_dir / name
    embedded.make_state_dir(folder)
    (folder / "log").mkdir()
    try:
        yield replace(
            services.settings, database_url=url, state_dir=folder, lease_s=2.0, sweep_s=0.5
        )
    finally:
        drop_database(template, name)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    assert settings.database_url is not None
    opened = Database(settings.database_url)
    yield opened
    opened.dispose()


@pytest.fixture
def broker(settings: Settings) -> Iterator[Celery]:
    assert settings.broker_url is not None
    app = brokers.make_app(settings.broker_url)
    yield app
    app.close()


@pytest.fixture
def client(settings: Settings) -> Iterator[Client]:
    with Client(settings) as opened:
        yield opened


@pytest.fixture
def start_worker(settings: Settings) -> Iterator[Callable[..., Popen[bytes]]]:
    """`start_worker(**options of embedded.start_worker)`; the settings may be replaced."""
    started: list[Popen[bytes]] = []

    def start(settings: Settings = settings, **options: Any) -> Popen[bytes]:
        started.append(embedded.start_worker(settings, **options))
        return started[-1]

    yield start
    for worker in started:
        worker.kill()
        worker.wait()


def administrate(url: sa.URL, statement: str) -> None:
    """Run a statement that wants no transaction, in the database `postgres`."""
    dsn = url.set(drivername="postgresql", database="postgres").render_as_string(
        hide_password=False
    )
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement)


def drop_database(url: sa.URL, name: str) -> None:
    """Drop a database with its connections.  An autovacuum worker in it belongs to the superuser,
    whom a test's role may not end: wait until it has gone.
    """

    def dropped() -> bool:
        try:
            administrate(url, f"DROP DATABASE {name} WITH (FORCE)")
        except psycopg.errors.InsufficientPrivilege:
            return False
        return True

    until(dropped)


def empty_broker(settings: Settings) -> None:
    """Forget every message."""
    assert settings.broker_url is not None
    with brokers.make_app(settings.broker_url) as app, redis_of(app) as redis:
        redis.flushall()


@contextmanager
def redis_of(app: Celery) -> Iterator[Any]:
    """The Redis client of a connection to the broker."""
    with app.connection_for_write() as connection:
        channel: Any = connection.default_channel
        yield channel.client
