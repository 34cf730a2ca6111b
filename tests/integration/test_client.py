"""The Python interface, with a worker that only pretends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.client import Client, Submission, UnknownJobError
from app.domain.job import JobState
from app.domain.request import RequestError
from app.domain.trajectory import Turn
from app.settings import ServicesNotRunningError, Settings
from app.store import tables
from app.store.evaluation import evaluations
from app.store.postgres.database import Database
from app.store.queue import leases
from tests.integration import fakes
from tests.waiting import until


@contextmanager
def worker(settings: Settings) -> Iterator[None]:
    """Finishes whatever is queued, without Celery."""
    over = Event()

    def work() -> None:
        database = Database(settings.database_url or "")
        while not over.wait(0.01):
            with database.begin() as connection:
                queued = list(
                    connection.execute(
                        tables.jobs.select().where(tables.jobs.c.state == JobState.QUEUED)
                    )
                )
            for row in queued:
                finish(database, row.job_id)
        database.dispose()

    thread = Thread(target=work)
    thread.start()
    yield
    over.set()
    thread.join()


def finish(database: Database, job_id: UUID) -> None:
    with database.begin() as connection:
        lease = leases.claim(connection, job_id, "me", 30)
        if lease:
            evaluations.add(
                connection, lease, worker="w", evaluation=fakes.incorrect(), verdict=fakes.clean()
            )


def test_submit_and_wait(client: Client) -> None:
    job = client.submit(reference="r", candidate="c", backend="torch", timing_budget_s=0)
    assert job.result()["state"] == "queued"
    with worker(client.settings):
        result = job.wait(timeout_s=30)
    assert (result["state"], result["status"], result["verdict"]) == (
        "finished",
        "incorrect",
        "clean",
    )
    assert str(result["url"]).startswith("http://127.0.0.1:8000/evaluations/")


def test_the_same_submission_twice_is_one_job(client: Client) -> None:
    first = client.submit(reference="r", candidate="c")
    assert client.submit(reference=b"r", candidate=b"c").job_id == first.job_id
    others = [
        client.submit(reference="r", candidate="c", fresh=True),
        client.submit(reference="r", candidate="c", backend="cuda"),
        client.submit(reference="r", candidate="c", gpu="h200"),
        client.submit(reference="r", candidate="c", deadline_s=5),
        client.submit(reference="r2", candidate="c"),
    ]
    assert len({job.job_id for job in [first, *others]}) == 6


def test_results_come_in_the_order_of_the_submissions(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [Submission(reference="r", candidate=f"c{number % 20}") for number in range(30)]
    with worker(client.settings):
        results = client.evaluate_many(
            [*many, {"reference": "r", "candidate": "c0"}], progress=True, timeout_s=60
        )
    ids = [result["job_id"] for result in results]
    assert ids[:10] == ids[20:30]
    assert ids[0] == ids[30]
    assert len(set(ids)) == 20
    captured = capsys.readouterr()
    assert "20/20" in captured.err
    assert captured.out == ""


def test_waiting_ends_in_time_and_the_job_goes_on(client: Client) -> None:
    job = client.submit(reference="r", candidate="c")
    with pytest.raises(TimeoutError, match=r"1 of 1 jobs were not over after 0\.1 s"):
        job.wait(timeout_s=0.1)
    assert job.result()["state"] == "queued"


def test_cancel(client: Client) -> None:
    job = client.submit(reference="r", candidate="c")
    assert job.cancel() is JobState.CANCELLED
    assert job.wait(timeout_s=5)["state"] == "cancelled"
    with pytest.raises(UnknownJobError):
        client.cancel(uuid4())


def test_unknown_jobs_are_no_results(client: Client) -> None:
    with pytest.raises(UnknownJobError, match="and 1 others"):
        client.results([uuid4(), uuid4()])
    with pytest.raises(UnknownJobError):
        client.wait([uuid4()])


def test_a_wait_outlives_its_connections(client: Client) -> None:
    job = client.submit(reference="r", candidate="c")
    ended = client.over([job.job_id], timeout_s=30)
    cut = Thread(target=terminate_others, args=(client.settings,))
    cut.start()
    with worker(replace(client.settings)):
        assert next(ended) == job.job_id
    cut.join()


def terminate_others(settings: Settings) -> None:
    database = Database(settings.database_url or "")
    with database.begin() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND query LIKE 'LISTEN%%'"
        )
    database.dispose()


@pytest.mark.parametrize(
    ("submission", "message"),
    [
        (
            {"reference": "r", "candidate": "c", "backend": "fortran"},
            "unknown backend 'fortran'; expected one of",
        ),
        (
            {"reference": "r", "candidate": "c", "priority": "now"},
            "unknown priority 'now'; expected one of high",
        ),
        ({"reference": "r", "candidate": "c", "gpu": "h999"}, "unknown GPU class 'h999'"),
        ({"reference": "r", "candidate": 5}, "expected str or bytes, got int"),
        ({"reference": "r"}, "missing 1 required keyword-only argument: 'candidate'"),
        (
            {"reference": "r", "candidate": "c", "options": {"deadline_s": 0}},
            "deadline_s: expected 1 to 3600, got 0",
        ),
        (
            {"reference": "r", "candidate": "c", "options": {"speed": 1}},
            "options: unknown speed; expected some of baseline, ",
        ),
        (
            {"reference": "r", "candidate": "c", "workflow": "magic"},
            "unknown workflow 'magic'; expected one of kernel_simple, kernelbench",
        ),
        (
            {"reference": "r", "candidate": "c", "workflow": "kernel_simple"},
            r"defines get_cases\(\)",
        ),
        (
            {
                "reference": fakes.CASES,
                "candidate": "c",
                "workflow": "kernel_simple",
                "options": {"baselines": ["compile"]},
            },
            "has no reference that could be timed; got baselines compile",
        ),
        (
            {"reference": "r", "candidate": "c" * (1 << 24) + "c"},
            "candidate: expected at most 16777216 bytes",
        ),
    ],
)
def test_bad_submissions_are_refused(
    client: Client, submission: dict[str, object], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        client.submit_many([submission])


def test_a_trajectory_and_its_jobs(client: Client) -> None:
    turns = [
        Turn(messages=(), response="r1", candidate="c1"),
        Turn(messages=(), response="r2", candidate=None),
    ]
    trajectory = client.submit_trajectory(reference="r", turns=turns, backend="torch", label="mine")
    job_ids = [turn.job_id for turn in trajectory.turns if turn.job_id]
    with worker(client.settings):
        assert [result["status"] for result in client.wait(job_ids, timeout_s=30)] == ["incorrect"]
    assert client.get_trajectory(trajectory.trajectory_id) == trajectory
    with pytest.raises(LookupError):
        client.get_trajectory(uuid4())


def test_a_problem_by_cases(client: Client) -> None:
    by_cases = client.submit(reference=fakes.CASES, candidate="c", workflow="kernel_simple")
    unnamed = client.submit(reference=fakes.CASES, candidate="c")
    assert unnamed.job_id == by_cases.job_id, "there is no other way to read it"
    both = f"{fakes.CASES}\nclass Model: ...\n"
    by_model = client.submit(reference=both, candidate="c")
    assert (
        client.submit(reference=both, candidate="c", workflow="kernel_simple").job_id
        != by_model.job_id
    )
    again = {"reference": fakes.CASES, "candidate": "c", "workflow": "kernel_simple"}
    assert client.submit_many([again])[0].job_id == by_cases.job_id
    turns = [Turn(messages=(), response="r", candidate="c")]
    stored = client.submit_trajectory(reference=fakes.CASES, turns=turns, workflow="kernel_simple")
    assert stored.turns[0].job_id == by_cases.job_id
    for none_to_evaluate in ([], [Turn(messages=(), response="r", candidate=None)]):
        with pytest.raises(RequestError, match="unknown workflow 'magic'"):
            client.submit_trajectory(reference="r", turns=none_to_evaluate, workflow="magic")


def test_a_wait_that_outlasts_its_client_leaves_no_connection(
    settings: Settings, database: Database
) -> None:
    client = Client(settings)
    ended, queued = client.submit_many(
        [Submission(reference="a", candidate=each, backend="torch") for each in "xy"]
    )
    ended.cancel()
    over: Any = client.over([ended.job_id, queued.job_id])
    assert next(over) == ended.job_id
    client.close()
    over.close()
    until(lambda: clients_of(database) == 1)


def clients_of(database: Database) -> int:
    """Connections to the database, with that which asks."""
    with database.begin() as connection:
        return connection.exec_driver_sql(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND backend_type = 'client backend'"
        ).scalar_one()


def test_without_services_it_says_how_to_start_them(tmp_path: Path) -> None:
    with pytest.raises(ServicesNotRunningError, match="start them with `assay up`"):
        Client(Settings(state_dir=tmp_path))
