"""Transactions that want the same rows or tables take them in one order: none is a deadlock."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from celery import Celery

from app.collect.sweep import sweep
from app.domain.collection.budgets import Amounts
from app.domain.problem import Problem
from app.domain.trajectory import Run
from app.store import endpoints, evaluations, problems, rollups, tables
from app.store import trajectories as runs
from app.store.collection import ledger, lifecycle
from app.store.database import Database
from tests.integration import collecting
from tests.integration.overlap import started, waits_or_ends
from tests.integration.seed_evaluations import CLEAN, HACK, passed
from tests.integration.web_seeder import Seeder


def test_roll_ups_are_made_anew_while_a_worker_stores_its_result(database: Database) -> None:
    with database.begin() as connection:
        seeder = Seeder(connection)
        job_id = seeder.job(seeder.problem("softmax", 1, "x"), b"class ModelNew: pass\n")
        evaluation_id = seeder.evaluation(job_id, passed(seeder.rng, speedup=2.0), CLEAN)

    def rebuilt() -> None:
        with database.begin() as connection:
            rollups.rebuild(connection)

    changed = sa.update(tables.evaluations).values(attempt=2)
    with database.begin() as connection:
        connection.execute(changed)
        with started(rebuilt) as later:
            waits_or_ends(database, later)
            evaluations.add_verdict(connection, evaluation_id, HACK)
            connection.commit()
            later.result()
    with database.read() as connection:
        assert rollups.check(connection) == []


def lapsed(connection: sa.Connection, rollout: Any, key: str) -> UUID:
    """An attempt of a rollout whose worker has gone silent during its call."""
    node_id = uuid4()
    row = {
        "node_id": node_id,
        "rollout_id": rollout.rollout_id,
        "collection_id": rollout.collection_id,
        "key": key,
        "operator": "first",
        "sample": 0,
        "turn": 0,
        "round": 0,
        "endpoint": "local",
        "seed": 0,
        "messages": [],
        "continues": False,
        "state": "calling",
        "claims": 1,
        "lease_owner": "gone",
        "lease_until": sa.func.now() - sa.func.make_interval(0, 0, 0, 0, 1),
    }
    connection.execute(sa.insert(tables.nodes).values(row))
    return node_id


def test_lapsed_calls_are_settled_while_a_worker_stores_an_answer(
    database: Database, broker: Celery
) -> None:
    spec = collecting.specification(strategy={"name": "independent", "samples": 2})
    with database.begin() as connection:
        endpoints.add(connection, collecting.LOCAL)
        [problem_id] = problems.add(
            connection, [Problem(name="softmax", reference=b"x", source_set="tests")]
        )
        run_id = runs.add_run(connection, Run(name="a"))
        lifecycle.add(connection, spec, run_id=run_id, problem_ids=[problem_id], prompts={})
        rollouts = connection.execute(sa.select(tables.collection_rollouts)).all()
        nodes = sorted((lapsed(connection, each, "0"), each) for each in rollouts)
    other = nodes[1][1]
    swept: list[Future[int]] = []
    with database.begin() as connection:
        held = sa.select(tables.collection_rollouts.c.rollout_id)
        held = held.where(tables.collection_rollouts.c.rollout_id == other.rollout_id)
        connection.execute(held.with_for_update())  # a decision on it, or an answer
        with started(lambda: sweep(database, broker, "local")) as later:
            waits_or_ends(database, later)
            swept.append(later)
            ledger.settle(
                connection,
                collection_id=other.collection_id,
                rollout_id=other.rollout_id,
                held=Amounts(),
                spent=Amounts(calls=1),
            )
            connection.commit()
            later.result()
    with database.read() as connection:
        spent = connection.scalar(sa.select(tables.collections.c.spent_calls))
    assert spent == 3
