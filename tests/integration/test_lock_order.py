"""Transactions that want the same rows or tables take them in one order: none is a deadlock."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from celery import Celery

from app import imports
from app.collect.sweep import sweep
from app.domain.collection.budgets import Amounts
from app.domain.problem import Problem
from app.domain.trajectory import Run
from app.store import tables
from app.store.collection import endpoints, ledger, lifecycle
from app.store.evaluation import evaluations
from app.store.figures import rollups
from app.store.postgres.database import Database
from app.store.queue import leases
from app.store.trajectory import problems
from app.store.trajectory import trajectories as runs
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


def test_an_import_of_a_problem_goes_on_while_a_worker_stores_its_result(
    database: Database, tmp_path: Path
) -> None:
    """The import sets the problem's licence and shares the running job; the worker, which has
    locked the job, records the problem's operators.
    """
    path = tmp_path / "samples.jsonl"
    sample = {"name": "softmax", "reference": "class Model: pass", "candidate": "class ModelNew: 1"}
    path.write_text(json.dumps({**sample, "backend": "torch", "licence": "MIT"}) + "\n")
    imports.jsonl(database, path, run="first")
    with database.begin() as connection:
        job_id = connection.scalar(sa.select(tables.jobs.c.job_id))
        lease = leases.claim(connection, job_id, "worker", 60.0)
        assert lease is not None
    with database.begin() as connection:
        assert leases.finish(connection, lease) is not None
        with started(lambda: imports.jsonl(database, path, run="second")) as later:
            waits_or_ends(database, later)
            problems.set_operators(connection, job_id, "aten::softmax")
            connection.commit()
            later.result()
