"""Collections that are stopped twice, stopped while PostgreSQL goes away, or resumed while Redis is
away: all of it happens, once.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from celery import Celery

from app import broker as brokers
from app.collect import control
from app.collect.sweep import sweep
from app.domain.collection.states import CollectionState
from app.domain.collection.stop_reasons import StopReason
from app.store import tables
from app.store.collection import lifecycle, trees
from app.store.postgres.database import Database, DatabaseUnavailableError
from app.store.queue import leases
from tests.integration.collecting import CODE, Site, said, specification
from tests.integration.overlap import started, waits_or_ends


@pytest.fixture
def site(database: Database, broker: Celery, problem_id: UUID) -> Site:
    """An endpoint that has answered one call of a rollout; its evaluation waits."""
    site = Site(database, broker, lambda request: said(CODE))
    site.start(specification())
    site.decide()
    assert site.call()
    return site


def jobs(site: Site) -> list[tuple[str, int]]:
    return [(job.state, job.submissions) for job in site.rows("jobs")]


def test_a_job_of_others_outlives_a_collection_that_is_stopped_twice(site: Site) -> None:
    with site.database.begin() as connection:
        connection.execute(sa.update(tables.jobs).values(submissions=3))
    for _ in range(3):
        control.stop(site.database, "a", "me")
    assert jobs(site) == [("queued", 2)]


def test_a_collection_that_was_half_stopped_is_stopped_by_the_sweep(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> list[UUID]:
        raise DatabaseUnavailableError("PostgreSQL went away")

    with monkeypatch.context() as broken:
        broken.setattr(lifecycle, "settle_stopped", away)
        with pytest.raises(DatabaseUnavailableError):
            control.stop(site.database, "a", "me")
    (collection,) = site.rows("collections")
    assert collection.state == CollectionState.STOPPED
    for _ in range(2):
        sweep(site.database, site.broker, "local")
    (rollout,) = site.rows("collection_rollouts")
    assert (rollout.stop_reason, rollout.stop_detail) == (StopReason.STOPPED, "by me")
    assert jobs(site) == [("cancelled", 1)]


def test_a_collection_is_stopped_while_a_worker_stores_a_result(site: Site) -> None:
    """The worker has locked the job, and marks the rollout that waits for it."""
    (job,) = site.rows("jobs")
    with site.database.begin() as connection:
        lease = leases.claim(connection, job.job_id, "worker", 60.0)
        assert lease is not None
    with site.database.begin() as connection:
        assert leases.finish(connection, lease) is not None
        with started(lambda: control.stop(site.database, "a", "me")) as later:
            waits_or_ends(site.database, later)
            trees.ended(connection, job.job_id)
            connection.commit()
            later.result()
    (rollout,) = site.rows("collection_rollouts")
    assert rollout.stop_reason == StopReason.STOPPED


def test_a_collection_is_resumed_while_redis_is_away(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.pause(site.database, "a", "me")
    with monkeypatch.context() as broken:
        broken.setattr(brokers, "depth", away_redis)
        control.resume(site.database, site.broker, "a")
    (collection,) = site.rows("collections")
    assert collection.state == CollectionState.RUNNING
    site.run()
    assert len(site.asked) == 3


def away_redis(*_: object) -> int:
    raise brokers.BrokerUnavailableError("Redis went away")
