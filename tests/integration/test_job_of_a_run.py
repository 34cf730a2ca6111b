"""A job that was submitted alone, with a run: an attempt of that run on every page,
in filters and in roll-ups.
"""

from __future__ import annotations

from dataclasses import replace

from celery import Celery

from app import enqueue
from app.domain.trajectory import Message, Run, Turn
from app.settings import Settings
from app.store.evaluation import evaluations
from app.store.figures import rollups
from app.store.postgres.database import Database
from app.store.queue import leases
from app.web import create_app
from tests.integration import fakes


def test_a_single_job_belongs_to_the_run_that_it_names(
    database: Database, broker: Celery, settings: Settings
) -> None:
    requests = [fakes.request(source, run="adhoc") for source in ("one", "two")]
    for job_id in enqueue.enqueue(database, broker, requests):
        with database.begin() as connection:
            lease = leases.claim(connection, job_id, "me", 30.0)
            assert lease is not None
            evaluations.add(
                connection, lease, worker="w", evaluation=fakes.passed(), verdict=fakes.clean()
            )
    with database.snapshot() as connection:
        assert rollups.check(connection) == []
    app = create_app(settings)
    site = app.test_client()
    [line] = site.get("/runs.json").get_json()["runs"]
    assert (line["name"], line["attempts"], line["correct"]) == ("adhoc", 2, 2)
    page = site.get(f"/runs/{line['run_id']}").text
    assert "Nothing of this run has been judged yet" not in page
    found = site.get(f"/runs/{line['run_id']}.json").get_json()
    assert [one["denominator"] for one in found["fast_p"]] == [
        2,
        2,
        2,
    ], "each job is a trajectory of one turn"
    listed = site.get("/candidates.json?where=run = adhoc").get_json()["candidates"]
    assert [(row["run"], row["turn"]) for row in listed] == [("adhoc", None)] * 2
    assert site.get("/candidates.json?where=run = other").get_json()["candidates"] == []
    app.extensions["assay"]["database"].dispose()


def test_a_job_of_two_runs_is_listed_under_both(
    database: Database, broker: Celery, settings: Settings
) -> None:
    """Identical submissions share a job: the second run's turn has the job of the first."""
    turn = Turn(
        messages=(Message(role="user", content="faster"),),
        response="…",
        candidate="same",
        turn_index=0,
    )
    for name in ("first", "second"):
        enqueue.enqueue_trajectory(
            database,
            broker,
            request=fakes.request("same"),
            turns=[turn],
            run=Run(name=name, model="m"),
        )
    app = create_app(settings)
    site = app.test_client()
    [of_first] = site.get("/jobs.json?run=first").get_json()["jobs"]
    [of_second] = site.get("/jobs.json?run=second").get_json()["jobs"]
    assert of_first == of_second
    assert (of_first["run"], of_first["turn"], of_first["verdict"]) == ("first", 0, None)
    page = site.get(f"/jobs/{of_first['job_id']}").text
    assert ">first</a>, " in page
    assert ">second</a>" in page
    app.extensions["assay"]["database"].dispose()


def test_a_job_that_was_submitted_without_a_run_has_that_of_its_turn(
    database: Database, broker: Celery, settings: Settings
) -> None:
    turn = Turn(
        messages=(Message(role="user", content="faster"),),
        response="…",
        candidate="one",
        turn_index=0,
    )
    run = Run(name="training", model="m")
    trajectory_id = enqueue.enqueue_trajectory(
        database, broker, request=fakes.request("one"), turns=[turn], run=run
    )
    other = replace(turn, candidate="two", turn_index=1)
    enqueue.enqueue_turn(
        database, broker, trajectory_id=trajectory_id, request=fakes.request("two"), turn=other
    )
    app = create_app(settings)
    listed = app.test_client().get("/jobs.json?run=training").get_json()["jobs"]
    assert [(row["run"], row["turn"]) for row in listed] == [("training", 1), ("training", 0)]
    app.extensions["assay"]["database"].dispose()
