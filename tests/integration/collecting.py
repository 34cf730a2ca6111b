"""An endpoint's worker and a device in this process, for collections against a model
that is a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import sqlalchemy as sa
from celery import Celery

from app import broker as brokers
from app import export as exporting
from app.collect import calls, start
from app.collect.advance import advance
from app.domain.collection import spec as specs
from app.domain.collection.call import (
    CallError,
    End,
    EndpointConfig,
    ErrorKind,
    ModelAnswer,
    ModelRequest,
    Prices,
    Usage,
)
from app.domain.collection.spec import CollectionSpec
from app.domain.job import Limits
from app.domain.problem import Problem
from app.domain.verdict import Label
from app.embedded import Services
from app.export import verify
from app.settings import Settings
from app.store import tables
from app.store.collection import endpoints, lifecycle, trees
from app.store.evaluation import evaluations
from app.store.postgres.database import Database
from app.store.queue import jobs, leases
from app.store.trajectory import problems
from tests.conftest import fresh
from tests.integration import dataset_seed
from tests.integration.fakes import incorrect, profiled

REFERENCE = b"class Model: pass"
LOCAL = EndpointConfig(
    name="local",
    base_url="http://127.0.0.1:1/v1",
    dialect="openai",
    model="m",
    prices=Prices(input=1.0, output=2.0),
)
CODE = "```python\n# passes\nclass ModelNew: pass\n```"


def specification(**changes: Any) -> CollectionSpec:
    usual: dict[str, Any] = {
        "name": "a",
        "problems": {"source_set": "tests"},
        "endpoint": "local",
        "strategy": {"name": "sequential", "turns": 3},
        "sampling": {"max_tokens": 100, "temperature": 1.0},
    }
    return specs.parse({**usual, **changes})


Model = Callable[[ModelRequest], ModelAnswer]


def said(text: str, **facts: Any) -> ModelAnswer:
    usage, now = Usage(input=50, output=20, source="reported"), datetime.now(UTC)
    usual: dict[str, Any] = {
        "finish_reason": "stop",
        "cost_usd": 0.001,
        "status": 200,
        "last_at": now,
    }
    return ModelAnswer(text=text, end=End.STOP, usage=usage, **{**usual, **facts})


def refused(kind: ErrorKind, **facts: Any) -> ModelAnswer:
    return ModelAnswer(end=End.ERROR, error=CallError(kind=kind, message="no", **facts))


class Site:
    """A worker of the endpoint and a device in this process."""

    def __init__(self, database: Database, broker: Celery, model: Model) -> None:
        self.database, self.broker, self.model = database, broker, model
        self.asked: list[ModelRequest] = []

    def start(self, spec: CollectionSpec) -> UUID:
        return start.start(self.database, self.broker, spec)

    def call(self) -> bool:
        prepared = calls.prepare(self.database, self.broker, "local", owner="me", lease_s=9)
        if not isinstance(prepared, calls.Prepared):
            return False
        self.asked.append(prepared.request)
        calls.store(self.database, self.broker, prepared, self.model(prepared.request))
        return True

    def decide(self) -> bool:
        with self.database.begin() as connection:
            due = trees.send_missed(connection, "local", 100)
        for rollout_id in due:
            advance(self.database, self.broker, rollout_id)
        return bool(due)

    def evaluate(self) -> bool:
        with self.database.begin() as connection:
            waiting = jobs.open_jobs(connection)
        for job_id in waiting:
            with self.database.begin() as connection:
                lease = leases.claim(connection, job_id, "device", 9, Limits())
                assert lease is not None
                found = profiled() if lease.job.candidate.startswith(b"# passes") else incorrect()
                evaluations.add(
                    connection,
                    lease,
                    worker="device",
                    evaluation=found,
                    verdict=dataset_seed.verdict(Label.CLEAN),
                )
                trees.ended(connection, job_id)
        return bool(waiting)

    def run(self) -> None:
        self.run_until(lambda: False)

    def run_until(self, reached: Callable[[], bool]) -> None:
        """Go on until nothing moves, or this is reached."""
        for _ in range(200):
            self.hurry()
            moved = [self.decide(), self.call(), self.evaluate()]
            if not any(moved) or reached():
                return
        raise AssertionError("no end")

    def hurry(self) -> None:
        """Pauses are over."""
        with self.database.begin() as connection:
            connection.execute(sa.text("UPDATE nodes SET due_at = now() WHERE state = 'ready'"))

    def collection(self, collection_id: UUID) -> lifecycle.Collection:
        with self.database.begin() as connection:
            found = lifecycle.get(connection, collection_id)
        assert found is not None
        return found

    def rows(self, name: str) -> list[Any]:
        with self.database.begin() as connection:
            return list(connection.execute(sa.select(tables.metadata.tables[name])))


@contextmanager
def opened(services: Services, model: Model) -> Iterator[tuple[Site, Settings]]:
    """A site in a database of its own, with the endpoint LOCAL and one problem."""
    with fresh(services) as settings:
        assert settings.database_url is not None
        assert settings.broker_url is not None
        database, broker = Database(settings.database_url), brokers.make_app(settings.broker_url)
        with database.begin() as connection:
            endpoints.add(connection, LOCAL)
            problems.add(
                connection, [Problem(name="softmax", reference=REFERENCE, source_set="tests")]
            )
        yield Site(database, broker, model), settings
        broker.close()
        database.dispose()


def exported(site: Site, out: Path, **options: Any) -> list[dict[str, Any]]:
    """Rows of the training part of a dataset, which verifies."""
    spec = exporting.spec_of({"val_fraction": 0.0} | options)
    exporting.export(site.database, spec, out)
    assert verify(out) == []
    return [
        row
        for file in sorted(out.glob("data/train*.parquet"))
        for row in pq.ParquetFile(file).read().to_pylist()
    ]
