"""The work of PostgreSQL for one call does not grow with the collection, also before
the tables are analysed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from uuid import UUID

import pytest
import sqlalchemy as sa
from celery import Celery

from app.collect.advance import advance
from app.domain.collection.states import CollectionState
from app.domain.problem import Problem
from app.settings import Settings
from app.store.collection import endpoints, lifecycle, trees
from app.store.postgres.database import WORKER_IDLE_S, Database
from app.store.trajectory import problems
from tests.integration.collecting import CODE, LOCAL, Site, said, specification

ROWS = sa.text(
    "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), pg_stat_force_next_flush() FROM"
    " pg_stat_xact_user_tables"
)
"""Rows that the connection has read since its counts left it; they leave with this transaction."""
MANY = 300
ALIKE = MANY // 3
"""Rows that steps differ by in any case, by the turns of their rollouts; one that
reads every attempt reads MANY.
"""


@pytest.fixture
def worker(settings: Settings) -> Iterator[Database]:
    """The database as a worker sees it, on one connection: plans are kept."""
    assert settings.database_url is not None
    opened = Database(settings.database_url, connections=1, worker_idle_s=WORKER_IDLE_S)
    yield opened
    opened.dispose()


@contextmanager
def rows_read(database: Database, found: list[int]) -> Iterator[None]:
    """Add the rows that each transaction reads meanwhile."""
    with database.begin() as connection:
        connection.execute(ROWS)

    def look(connection: sa.Connection) -> None:
        found.append(int(connection.execute(ROWS).one()[0] or 0))

    sa.event.listen(database.engine, "commit", look)
    try:
        yield
    finally:
        sa.event.remove(database.engine, "commit", look)


def step(site: Site) -> list[int]:
    """Rows read by the transactions of a call, its evaluation and the decision that follows."""
    found: list[int] = []
    for act in (site.call, site.evaluate):
        with rows_read(site.database, found):
            assert act()
    with site.database.begin() as connection:
        (rollout_id,) = trees.send_missed(connection, "local", 1)
    with rows_read(site.database, found):
        advance(site.database, site.broker, rollout_id)
    return found


def opened(database: Database, worker: Database, broker: Celery) -> Site:
    """A collection of four rollouts, with so many calls behind it that PostgreSQL
    keeps its plans.
    """
    with database.begin() as connection:
        endpoints.add(connection, LOCAL)
        known = [
            Problem(name=f"p{number}", reference=b"class Model: pass", source_set="tests")
            for number in range(2)
        ]
        problems.add(connection, known)
    number = count()
    site = Site(worker, broker, lambda _: said(CODE.replace("pass\n", f"pass  # {next(number)}\n")))
    site.start(
        specification(
            problems={"names": ["p0"]}, strategy={"name": "sequential", "samples": 4, "turns": 5}
        )
    )
    site.decide()
    return site


def add_many(site: Site) -> UUID:
    """A collection of which every attempt is ready."""
    spec = specification(
        name="b", problems={"names": ["p1"]}, strategy={"name": "independent", "samples": MANY}
    )
    collection_id = site.start(spec)
    for _ in range(0, MANY, 100):
        site.decide()
    return collection_id


def test_a_call_reads_as_many_rows_beside_many_attempts(
    database: Database, worker: Database, broker: Celery
) -> None:
    site = opened(database, worker, broker)
    few = [step(site) for _ in range(16)][-1]
    add_many(site)
    many = step(site)
    assert sum(many) <= sum(few) + ALIKE, (few, many)


def test_attempts_of_a_paused_collection_are_not_read_past(
    database: Database, worker: Database, broker: Celery
) -> None:
    site = opened(database, worker, broker)
    few = [step(site) for _ in range(20)][-1]
    paused = add_many(site)
    with database.begin() as connection:
        lifecycle.pause(connection, paused, "for a test")
    site.start(specification(name="c", problems={"names": ["p0"]}))
    site.decide()
    many = step(site)
    assert sum(many) <= sum(few) + ALIKE, (few, many)
    with database.begin() as connection:
        assert lifecycle.resume(connection, paused) is CollectionState.RUNNING
    assert site.call()
    assert site.call()
