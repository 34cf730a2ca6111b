"""PostgreSQL's clock is set back by hours: nothing waits until it has caught up."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from celery import Celery

from app import enqueue, sending
from app.collect.sweep import sweep
from app.domain.device import DeviceId
from app.domain.job import JobState, Limits
from app.domain.problem import Problem
from app.store import tables
from app.store.collection import endpoints, lifecycle
from app.store.postgres.database import Database
from app.store.queue import jobs, leases, scheduling
from app.store.trajectory import problems
from tests.integration import fakes
from tests.integration.collecting import CODE, LOCAL, REFERENCE, Site, said, specification

HERE = DeviceId(device_class="cpu", node="here", index=0)
TERMS = scheduling.ClaimSettings(owner="me", lease_s=9, limits=Limits())


def set_back(database: Database, *changed: tuple[sa.Table, str]) -> None:
    """The same as a clock that is set back by five hours: stored times are five hours later."""
    later = sa.func.make_interval(0, 0, 0, 0, 5)
    with database.begin() as connection:
        for table, name in changed:
            column: sa.Column[Any] = table.c[name]
            connection.execute(
                sa.update(table).where(column.is_not(None)).values({name: column + later})
            )


def test_a_job_of_a_dead_worker_runs_again(database: Database, broker: Celery) -> None:
    (job_id,) = enqueue.enqueue(database, broker, [fakes.request()])
    with database.begin() as connection:
        assert leases.claim(connection, job_id, "dead", 20) is not None
    set_back(database, (tables.jobs, "lease_until"))
    sending.send_lost(database, broker, grace_s=0, limits=Limits())
    with database.begin() as connection:
        assert jobs.states(connection, [job_id])[job_id] is JobState.QUEUED
    set_back(database, (tables.jobs, "not_before"), (tables.jobs, "created_at"))
    with database.begin() as connection:
        assert scheduling.claim(connection, HERE, "cpu", TERMS).lease is not None


def test_a_collection_goes_on(database: Database, broker: Celery) -> None:
    with database.begin() as connection:
        endpoints.add(connection, LOCAL)
        problems.add(connection, [Problem(name="softmax", reference=REFERENCE, source_set="tests")])
    site = Site(database, broker, lambda _: said(CODE))
    collection_id = site.start(
        specification(strategy={"name": "sequential", "samples": 2, "turns": 1})
    )
    with database.begin() as connection:
        connection.execute(sa.update(tables.collection_rollouts).values(sent_at=None))
    set_back(database, (tables.collection_rollouts, "due_at"))
    assert site.decide()
    set_back(database, (tables.nodes, "due_at"))
    assert not site.call()
    sweep(database, broker, "local")
    assert site.call()
    with database.begin() as connection:
        lifecycle.pause(connection, collection_id, "for a test")
    sweep(database, broker, "local")
    with database.begin() as connection:
        ready = tables.nodes.c.state == "ready"
        (due_at,) = connection.scalars(sa.select(tables.nodes.c.due_at).where(ready))
    assert due_at == lifecycle.NEVER
