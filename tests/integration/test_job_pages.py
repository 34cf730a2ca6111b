"""The list of jobs, the page of one, the form that submits one, and the actions on them."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from uuid import UUID

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from app.domain import ids, worked_example
from app.domain.evaluation import Status
from app.store import tables
from app.store.postgres.database import Database
from tests.integration.seed_evaluations import CLEAN, HACK, failed, passed
from tests.integration.web_seeder import Seeder


@pytest.fixture
def seeder(database: Database) -> Iterator[Seeder]:
    with database.begin() as connection:
        yield Seeder(connection)


def send(empty_pages: FlaskClient, path: str, **values: str) -> tuple[int, str, str]:
    """Post a form as its page would; status, text, and where it leads."""
    token = re.search(r'name="csrf_token" value="([^"]+)"', empty_pages.get("/jobs").text)
    assert token is not None
    answer = empty_pages.post(path, data={**values, "csrf_token": token[1]})
    return answer.status_code, answer.text, answer.headers.get("Location", "")


def job_of(path: str) -> UUID:
    found = re.match(r"/jobs/([0-9a-f-]{36})", path)
    assert found is not None, path
    return UUID(found[1])


def state_of(database: Database, job_id: UUID) -> str:
    with database.read() as connection:
        return str(
            connection.scalar(sa.select(tables.jobs.c.state).where(tables.jobs.c.job_id == job_id))
        )


def problem_of(database: Database) -> tuple[UUID, UUID]:
    """A stored problem and a run."""
    with database.begin() as connection:
        seeder = Seeder(connection)
        run_id = ids.new_id()
        seeder.insert(tables.runs, run_id=run_id, name="sweep/7", model="m")
        return seeder.problem("softmax", 1, "torch.softmax(x, dim=self.dim)"), run_id


def test_jobs_are_listed_with_state_run_attempts_worker_and_reason(
    empty_pages: FlaskClient, database: Database
) -> None:
    problem_id, run_id = problem_of(database)
    with database.begin() as connection:
        seeder = Seeder(connection)
        broken = seeder.job(
            problem_id,
            b"a",
            state="failed",
            run_id=run_id,
            error_kind="device_lost",
            error_message="GPU fell off",
        )
        wrong = seeder.job(problem_id, b"b", lease_owner="bench-01.77.ab12")
        seeder.evaluation(wrong, failed(seeder.rng, Status.INCORRECT), CLEAN)
        seeder.job(problem_id, b"c", state="queued", device_class="h200")
    every = empty_pages.get("/jobs").text
    assert every.count('<th scope="row"') == 3
    for text in (
        "device lost",
        "GPU fell off",
        "sweep/7",
        "bench-01",
        "incorrect",
        "Cancel job",
        "Run job",
    ):
        assert text in every
    for query, listed in {
        "state=failed": 1,
        "gpu=h200": 1,
        "run=sweep/7": 1,
        "run=sweep": 0,
        "error=device_lost": 1,
        "state=finished&gpu=h200": 0,
    }.items():
        rows = empty_pages.get(f"/jobs.json?{query}").json["jobs"]
        assert len(rows) == listed, query
    assert empty_pages.get("/jobs.json?state=failed").json["jobs"][0]["job_id"] == str(broken)
    assert empty_pages.get("/jobs?state=lost").status_code == 400


def test_a_list_of_jobs_is_walked_both_ways(
    empty_pages: FlaskClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.web.request_context.TABLE_ROWS", 50)
    problem_id, _ = problem_of(database)
    with database.begin() as connection:
        seeder = Seeder(connection)
        made = [seeder.job(problem_id, b"x", state="queued", age_s=number) for number in range(60)]
    first = empty_pages.get("/jobs.json").json["jobs"]
    assert [row["job_id"] for row in first] == [str(each) for each in made[:50]]
    rest = empty_pages.get(f"/jobs.json?older_than={first[-1]['job_id']}").json["jobs"]
    assert [row["job_id"] for row in rest] == [str(each) for each in made[50:]]
    back = empty_pages.get(f"/jobs.json?newer_than={rest[0]['job_id']}").json["jobs"]
    assert back == first


def test_a_queued_job_is_cancelled_and_run_again(
    empty_pages: FlaskClient, database: Database
) -> None:
    problem_id, _ = problem_of(database)
    with database.begin() as connection:
        job_id = Seeder(connection).job(problem_id, b"x", state="queued")
    assert f"/jobs/{job_id}/cancel" in empty_pages.get(f"/jobs/{job_id}").text
    assert send(empty_pages, f"/jobs/{job_id}/cancel")[0] == 302
    assert state_of(database, job_id) == "cancelled"
    status, _, where = send(empty_pages, f"/jobs/{job_id}/again")
    assert (status, job_of(where)) == (302, job_id)
    assert state_of(database, job_id) == "queued"
    with database.read() as connection:
        actions = list(connection.scalars(sa.select(tables.audit_events.c.action)))
    assert sorted(actions) == ["job.cancel", "job.retry"]


def test_a_finished_job_runs_again_as_another_one_of_the_same_run(
    empty_pages: FlaskClient, database: Database
) -> None:
    problem_id, run_id = problem_of(database)
    with database.begin() as connection:
        job_id = Seeder(connection).job(problem_id, b"x", run_id=run_id)
    assert send(empty_pages, f"/jobs/{job_id}/cancel")[2].endswith("done=over")
    made = job_of(send(empty_pages, f"/jobs/{job_id}/again")[2])
    assert made != job_id
    with database.read() as connection:
        assert (
            connection.scalar(sa.select(tables.jobs.c.run_id).where(tables.jobs.c.job_id == made))
            == run_id
        )
    assert "sweep/7" in empty_pages.get(f"/jobs/{made}").text


def test_the_form_submits_a_job_and_shows_its_defaults(
    empty_pages: FlaskClient, database: Database
) -> None:
    problem_id, _ = problem_of(database)
    empty = empty_pages.get("/jobs/new").text
    for text in ('value="120"', 'value="2"', "kernelbench", "Default 120."):
        assert text in empty
    found = empty_pages.get("/jobs/new?find=soft").text
    assert f"problem_id={problem_id}" in found
    status, _, where = send(
        empty_pages,
        "/jobs/new",
        problem_id=str(problem_id),
        candidate="class ModelNew: ...",
        run="sweep/7",
        deadline_s="60",
    )
    assert status == 302
    with database.read() as connection:
        row = connection.execute(
            sa.select(tables.jobs).where(tables.jobs.c.job_id == job_of(where))
        ).one()
    assert row.problem_id == problem_id
    assert row.options["deadline_s"] == 60
    again = send(
        empty_pages,
        "/jobs/new",
        problem_id=str(problem_id),
        candidate="class ModelNew: ...",
        run="sweep/7",
        deadline_s="60",
    )
    assert again[2].endswith("done=known")


def test_a_field_of_the_form_may_be_as_long_as_a_source(empty_pages: FlaskClient) -> None:
    """The page sends its form in parts; a part of more than half a megabyte counts as any other."""
    kind = "multipart/form-data; boundary=-"
    answer = empty_pages.post("/jobs/new", data=in_parts(["#" * 600_000]), content_type=kind)
    assert answer.status_code == 403, "the form's token is looked for, and missing"
    answer = empty_pages.post("/jobs/new", data=in_parts([""] * 2_000), content_type=kind)
    assert (answer.status_code, "form: expected at most 1000 fields" in answer.text) == (413, True)


def in_parts(candidates: list[str]) -> bytes:
    field = '---\r\nContent-Disposition: form-data; name="candidate"\r\n\r\n'
    return "".join(f"{field}{each}\r\n" for each in candidates).encode() + b"-----\r\n"


def test_errors_of_the_form_stand_beside_their_fields(
    empty_pages: FlaskClient, database: Database
) -> None:
    status, text, _ = send(
        empty_pages,
        "/jobs/new",
        reference="import torch",
        candidate="",
        deadline_s="9999",
        timing_budget_s="soon",
        gpu="cpu",
    )
    assert status == 400
    for name in ("candidate", "deadline_s", "timing_budget_s"):
        assert f'id="{name}-error"' in text
    assert 'id="reference-error"' not in text
    assert ">import torch</textarea>" in text
    assert "1 to 3600" in text
    status, text, _ = send(empty_pages, "/jobs/new", reference="x", candidate="y", gpu="abacus")
    assert status == 400
    assert 'id="gpu-error"' in text


def test_the_page_of_a_job_changes_by_itself(empty_pages: FlaskClient, database: Database) -> None:
    problem_id, _ = problem_of(database)
    with database.begin() as connection:
        job_id = Seeder(connection).job(problem_id, b"x", state="queued")
    page = empty_pages.get(f"/jobs/{job_id}").text
    assert f'data-live="/jobs/{job_id}/live"' in page
    assert 'data-topics="jobs,evaluations"' in page
    before = empty_pages.get(f"/jobs/{job_id}/live").text
    with database.begin() as connection:
        connection.execute(
            sa.update(tables.jobs).values(state="cancelled", finished_at=sa.func.now())
        )
    after = empty_pages.get(f"/jobs/{job_id}/live").text
    assert "queued" in before
    assert "cancelled" in after
    assert "csrf" not in after  # rendered once for all readers


def test_a_newcomer_is_led_to_an_example_that_can_be_submitted(
    empty_pages: FlaskClient, database: Database
) -> None:
    first = empty_pages.get("/").text
    for name, candidate in worked_example.CANDIDATES.items():
        assert name == "wrong" or f'href="/jobs/new?example={name}"' in first
        form = html.unescape(empty_pages.get(f"/jobs/new?example={name}").text)
        assert candidate in form
        assert worked_example.REFERENCE.strip() in form
    values = {
        "reference": worked_example.REFERENCE,
        "candidate": worked_example.DECOY,
        "backend": "triton",
        "gpu": "cpu",
    }
    status, _, there = send(empty_pages, "/jobs/new", problem_name=worked_example.PROBLEM, **values)
    assert status == 302
    assert state_of(database, job_of(there)) == "queued"
    assert empty_pages.get("/jobs/new?example=best").status_code == 400


def test_a_hack_is_seen_in_the_list_and_on_the_page_of_its_job(
    empty_pages: FlaskClient, database: Database
) -> None:
    problem_id, _ = problem_of(database)
    with database.begin() as connection:
        seeder = Seeder(connection)
        job_id = seeder.job(problem_id, b"a")
        seeder.evaluation(job_id, passed(seeder.rng), HACK)
    for path in ("/jobs", f"/jobs/{job_id}"):
        assert re.search("passed</span>.*hack</span>", empty_pages.get(path).text, re.DOTALL), path
