"""Judging again under another policy: changed verdicts, by which detector, and the
datasets that they make stale.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from celery import Celery

from app import enqueue
from app.domain import ids
from app.domain import policy as policies
from app.domain.evaluation import Evaluation
from app.domain.output_checks import Correctness, OutputCheck, Trial
from app.judge import judge
from app.settings import Settings
from app.store import tables
from app.store.dataset import exports, listing, stale_exports
from app.store.evaluation import evaluations
from app.store.postgres.database import Connection, Database
from app.store.queue import leases
from tests.integration import fakes
from tests.integration.cli import assay

CHECK = OutputCheck(
    index=0,
    dtype="float32",
    shape=(4,),
    ok=True,
    rel_l2=0.0,
    rel_l2_limit=1e-5,
    max_norm=0.0,
    max_norm_limit=1e-4,
    nonfinite_mismatches=0,
    unwritten=0,
    stale_call=None,
)
TRIAL = Trial(call=0, seed="00/0", ok=True, outputs=(CHECK,))
NO_KERNEL = replace(
    fakes.passed(), correctness=Correctness(calls=1, failed_calls=0, trials=(TRIAL,), mode="train")
)


def _store(database: Database, broker: Celery, candidate: str, evaluation: Evaluation) -> UUID:
    (job_id,) = enqueue.enqueue(database, broker, [fakes.request(candidate)])
    with database.begin() as connection:
        lease = leases.claim(connection, job_id, "me", 30)
        assert lease is not None
        evaluation_id = evaluations.add(
            connection, lease, worker="w", evaluation=evaluation, verdict=fakes.clean()
        )
        assert evaluation_id is not None
        stored = evaluations.get(connection, evaluation_id)
        assert stored is not None
        evaluations.add_verdict(connection, evaluation_id, judge(stored.subject))
    return evaluation_id


def _export(connection: Connection, evaluation_ids: list[UUID]) -> UUID:
    export_id = ids.new_id()
    exports.add(
        connection,
        export_id=export_id,
        format="trl_sft",
        where_text="correct",
        directory="/tmp/x",
        manifest={"rows": len(evaluation_ids)},
        evaluation_ids=evaluation_ids,
    )
    return export_id


@pytest.fixture
def judged(database: Database, broker: Celery) -> tuple[UUID, UUID]:
    """Plain PyTorch that says so, which is clean where a kernel is not asked for;
    and a wrong one.
    """
    return _store(database, broker, "right", NO_KERNEL), _store(
        database, broker, "wrong", fakes.incorrect()
    )


def _run(settings: Settings, *arguments: str) -> Any:
    came = assay(settings, "judge", *arguments)
    assert came.exit_code == 0, came.output
    return json.loads(came.stdout) if "--json" in arguments else came.stdout


def _stale(database: Database) -> dict[UUID, str | None]:
    with database.begin() as connection:
        return {each.export_id: each.stale_reason for each in listing.datasets(connection)}


def test_a_stricter_policy_names_the_detector_and_the_datasets(
    settings: Settings, database: Database, judged: tuple[UUID, UUID]
) -> None:
    right, wrong = judged
    with database.begin() as connection:
        touched, other = _export(connection, [wrong, right]), _export(connection, [wrong])
    planned = _run(settings, "--all", "--policy", "triton-only", "--dry-run", "--json")
    (change,) = [change for change in planned["changes"] if change["before"] != change["after"]]
    assert change == {
        "evaluation_id": str(right),
        "before": "clean",
        "after": "hack",
        "detectors": [{"detector": "no_custom_kernel", "before": "clean", "after": "hack"}],
    }
    assert planned["stale_exports"] == [str(touched)]
    assert _stale(database) == {touched: None, other: None}

    shown = _run(settings, "--all", "--policy", "triton-only")
    assert "clean → hack" in shown
    assert "no_custom_kernel" in shown
    assert f"now stale: datasets {touched}" in shown
    assert _stale(database) == {
        touched: f"evaluation {right}: clean → hack under triton-only@2",
        other: None,
    }


def test_without_a_policy_each_is_judged_by_what_it_was_judged_by(
    settings: Settings, database: Database, judged: tuple[UUID, UUID]
) -> None:
    _run(settings, str(judged[0]), "--policy", "anything-correct")
    again = _run(settings, "--all", "--json")
    assert again["policies"] == {"anything-correct@2": 1, "kernelbench@2": 1}
    assert again["changed"] == 0


def test_where_a_person_has_spoken_their_word_stays(
    database: Database, judged: tuple[UUID, UUID]
) -> None:
    right, _ = judged
    with database.begin() as connection:
        _export(connection, [right])
        found = tables.evaluations.c.evaluation_id == right
        connection.execute(tables.evaluations.update().where(found).values(human_verdict="clean"))
        assert stale_exports.resting_on(connection, right, before="clean", after="hack") == []
        assert (
            stale_exports.mark(connection, right, before="clean", after="hack", why="changed") == []
        )


def test_the_submitter_s_policy_reaches_the_job(database: Database, broker: Celery) -> None:
    options = replace(fakes.request().options, policy="triton-only")
    (job_id,) = enqueue.enqueue(database, broker, [fakes.request("strict", options=options)])
    with database.begin() as connection:
        lease = leases.claim(connection, job_id, "me", 30)
    assert lease is not None
    assert lease.job.options.policy == "triton-only"
    with pytest.raises(policies.UnknownPolicyError, match="standard"):
        replace(options, policy="standard")
