"""Requests that make no sense: each is refused with the status that says why, and none ends in a
fault of the server."""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import flask
import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from werkzeug.exceptions import ServiceUnavailable
from werkzeug.test import TestResponse

from app import web
from app.domain.user import Role, Scope
from app.settings import Settings
from app.store import tables
from app.store.collection import endpoints, workers
from app.store.postgres.database import Database
from app.store.user import tokens, users
from app.web import export_subprocess, request_context
from tests.integration import collecting
from tests.integration.seed_evaluations import SUSPECT, passed
from tests.integration.web_app import UNKNOWN
from tests.integration.web_seed import History
from tests.integration.web_seeder import Seeder

DIGITS = "9" * 5_000
"""More digits than Python reads as a number."""
BEYOND = "9" * 19
"""A number that no column holds."""

ADDRESSES = {
    f"/leaderboard?level={DIGITS}": 400,
    f"/leaderboard?level={BEYOND}": 400,
    f"/problems?level={BEYOND}": 400,
    f"/filters/complete?text=a&at={DIGITS}": 400,
    "/filters/complete?text=a": 400,
    f"/monitoring/problematic-codes?min_errors={BEYOND}": 400,
    f"/trajectories/{{trajectory}}?turn={DIGITS}": 400,
    "/trajectories/{trajectory}?turn=900": 404,
    f"/trajectories/{{trajectory}}?turn=3&tab=diff&against={DIGITS}": 400,
    f"/trajectories/{{trajectory}}/turns/{BEYOND}.json": 404,
    f"/evaluations/{{evaluation}}/code?kernel={DIGITS}": 400,
    "/review/{evaluation}?run=%00": 400,
    "/compare?a={evaluation}&b={evaluation}&view=sideways": 400,
    "/compare.json?a={evaluation}&b={evaluation}&c=1": 400,
    "/hacks/no_such_detector/examples.json": 404,
    "/hacks/%00/examples.json": 404,
    "/exports/new?policy=nope": 400,
    "/v1/collections/%00": 404,
}

FORMS: tuple[tuple[str, dict[str, str], int], ...] = (
    ("/review/queues", {"name": "a\0b"}, 400),
    ("/review/queues", {"name": "a", "run": "a\0b"}, 400),
    ("/review/next", {"run": "a\0b"}, 400),
    (f"/review/{UNKNOWN}", {"label": "hack", "reason": "the clock is patched"}, 404),
    (f"/review/{UNKNOWN}/lock", {}, 404),
    (f"/review/{UNKNOWN}/skip", {}, 404),
    ("/notes/problem/{problem}", {"remove": "a\0b"}, 400),
    ("/views", {"page": "runs.index", "name": "a\0b", "query": ""}, 400),
    ("/views", {"page": "runs.index", "name": "a", "query": "name=a\r\nX: y"}, 400),
    ("/views", {"page": "runs.index", "name": "a", "query": "name=%00"}, 400),
    (f"/collections/{UNKNOWN}/stop", {}, 404),
    ("/compare?a={evaluation}&b={evaluation}", {"chosen": "a", "reason": "faster"}, 400),
    ("/exports", {"policy": "nope"}, 400),
)


@pytest.fixture
def ids(history: History) -> dict[str, UUID]:
    """Rows of the seeded database by the names in ADDRESSES and FORMS."""
    return {
        "evaluation": history.seeded.evaluations["passed"],
        "trajectory": history.seeded.trajectories[0],
        "problem": history.seeded.problems[0],
    }


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda address: address[:60])
def test_an_address_that_makes_no_sense_is_refused(
    pages: FlaskClient, ids: dict[str, UUID], address: str
) -> None:
    assert pages.get(address.format(**ids)).status_code == ADDRESSES[address]


@pytest.mark.parametrize(("path", "form", "status"), FORMS)
def test_a_form_that_makes_no_sense_is_refused(
    pages: FlaskClient, ids: dict[str, UUID], path: str, form: dict[str, str], status: int
) -> None:
    assert send(pages, path.format(**ids), **form).status_code == status


@pytest.mark.parametrize("query", ["columns=problem&columns=run", "endpoint=x", "_method=GET"])
def test_the_old_address_of_the_list_leads_to_the_new_one_with_the_same_query(
    pages: FlaskClient, query: str
) -> None:
    assert pages.get(f"/evaluations?{query}").headers["Location"] == f"/candidates?{query}"


def test_a_person_gets_a_page_where_a_program_gets_json(
    made: Callable[..., flask.Flask], database: Database
) -> None:
    with database.begin() as connection:
        seeder = Seeder(connection)
        seeder.job(seeder.problem("softmax", 1, "x"), b"x", state="queued")
    site = made(max_queued=1).test_client()
    form = {"candidate": "c", "reference": "r", "backend": "torch", "gpu": "cpu"}
    answer = send(site, "/jobs/new", **form)
    assert (answer.status_code, answer.mimetype) == (429, "text/html")
    assert "expected fewer than 1 jobs" in answer.text
    assert int(answer.headers["Retry-After"]) > 0
    body = {"reference": "r", "candidate": "c", "backend": "torch"}
    assert site.post("/v1/evaluations", json=body).json["error"]["kind"] == "too_many_requests"


def test_rows_wait_for_a_count_that_is_under_way(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_subprocess, "_free", threading.BoundedSemaphore(1))
    with export_subprocess._free, pytest.raises(ServiceUnavailable, match="under way"):
        export_subprocess.ask(settings, "rows", {})


def test_a_raw_table_as_data_leads_to_its_rest(
    pages: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_whole(pages, monkeypatch, "/admin/tables/evaluations.json", "evaluations")


def test_findings_of_a_detector_as_data_lead_to_their_rest(
    empty_pages: FlaskClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.begin() as connection:
        seeder = Seeder(connection)
        problem_id = seeder.problem("softmax", 1, "x")
        for source in (b"a", b"b", b"c"):
            seeder.evaluation(seeder.job(problem_id, source), passed(seeder.rng), SUSPECT)
    path = "/hacks/claimed_time/examples.json"
    assert_whole(empty_pages, monkeypatch, path, "examples")


def assert_whole(pages: FlaskClient, monkeypatch: pytest.MonkeyPatch, path: str, rows: str) -> None:
    """The rows are the same in files of one, each of which leads to the next."""
    whole = pages.get(path).json[rows]
    monkeypatch.setattr(request_context, "TABLE_ROWS", 1)
    found, following = [], path
    while following:
        answer = pages.get(following)
        assert len(answer.json[rows]) == 1
        found += answer.json[rows]
        link = re.match('<([^>]*)>; rel="next"', answer.headers.get("Link", ""))
        following = link[1] if link else ""
    assert found == whole
    assert len(found) > 1


def test_notes_of_a_tag_are_the_same_as_data(pages: FlaskClient, ids: dict[str, UUID]) -> None:
    path = f"/notes/problem/{ids['problem']}"
    send(pages, path, comment="Nothing about the tag")
    send(pages, path, tag="mask-bug")
    [tagged] = pages.get("/notes.json?tag=mask-bug").json["tagged"]
    assert tagged["subject_id"] == str(ids["problem"])


def test_a_rollout_belongs_to_one_run(pages: FlaskClient) -> None:
    item = {"reference": "r", "candidate": "c", "response": "a", "campaign": {"name": "one"}}
    answer = pages.post("/v1/rollouts:batch", json={"items": [item | {"run": "other"}]})
    assert answer.status_code == 409
    assert "expected 'one'" in answer.json["error"]["message"]


def test_the_priority_of_a_rollout_is_that_of_its_job(pages: FlaskClient, history: History) -> None:
    item = {"reference": "r", "candidate": "urgent", "response": "a", "campaign": {"name": "one"}}
    items = [item | {"priority": "high"}, item | {"candidate": "usual"}]
    answer = pages.post("/v1/rollouts:batch", json={"items": items})
    assert answer.status_code == 202
    database = Database(history.settings.database_url or "")
    with database.begin() as connection:
        query = sa.select(tables.jobs.c.job_id, tables.jobs.c.priority)
        of_job = {str(row.job_id): row.priority for row in connection.execute(query)}
    database.dispose()
    assert [of_job[job_id] for job_id in answer.json["job_ids"]] == ["high", "normal"]
    refused = pages.post("/v1/rollouts:batch", json={"items": [item | {"priority": "urgent"}]})
    assert refused.status_code == 400


def test_a_dataset_under_an_unknown_policy_is_not_begun(pages: FlaskClient) -> None:
    answer = pages.post("/v1/exports", json={"spec": {"format": "trl_sft", "policy": "nope"}})
    assert answer.status_code == 400
    assert "unknown policy 'nope'" in answer.json["error"]["message"]


def test_an_export_that_has_ended_is_not_resumed(pages: FlaskClient, history: History) -> None:
    database = Database(history.settings.database_url or "")
    with database.begin() as connection:
        row = {"export_job_id": UNKNOWN, "spec": {"format": "trl_sft"}, "directory": "d"}
        Seeder(connection).insert(tables.export_jobs, state="cancelled", **row)
    database.dispose()
    assert send(pages, f"/exports/jobs/{UNKNOWN}/resume").status_code == 409
    assert "export.resume" not in pages.get("/audit").text


@pytest.mark.parametrize(
    "name", ["_collection.html", "_export_job.html", "_exports.html", "_job.html"]
)
def test_a_part_that_all_readers_share_has_no_token_of_one(name: str) -> None:
    """Rendered once, it would have the token of the first reader, and others would be refused."""
    text = (Path(web.__file__).parent / "templates" / name).read_text()
    assert "csrf_field" not in text
    assert "<form" not in text


def test_a_viewer_is_offered_no_action_on_an_export(
    made: Callable[..., flask.Flask], database: Database
) -> None:
    with database.begin() as connection:
        row = {"export_job_id": UNKNOWN, "spec": {"format": "trl_sft"}, "directory": "d"}
        Seeder(connection).insert(tables.export_jobs, state="queued", **row)
    site, path = made().test_client(), f"/exports/jobs/{UNKNOWN}/live"
    assert ">Stop</button>" in site.get(path).text
    with database.begin() as connection:
        users.add(connection, name="ada", role=Role.ADMIN, password_hash=None)
        account = users.add(connection, name="vic", role=Role.VIEWER, password_hash=None)
        _, text = tokens.add(connection, user_id=account.user_id, name="t", scopes=[Scope.READ])
    seen = made().test_client().get(path, headers={"Authorization": f"Bearer {text}"})
    assert seen.status_code == 200
    assert ">Stop</button>" not in seen.text


def test_an_endpoint_with_workers_that_have_no_key_is_shown(
    empty_pages: FlaskClient, database: Database
) -> None:
    with database.begin() as connection:
        endpoints.add(connection, collecting.LOCAL)
        workers.beat(connection, worker="w", endpoint="local", in_flight=0, has_key=False)
    assert "no key</span>" in empty_pages.get("/endpoints").text


def test_the_live_part_of_the_exports_has_every_chosen_column(pages: FlaskClient) -> None:
    text = html.unescape(pages.get("/exports?columns=format&columns=rows").text)
    assert 'data-live="/exports/live?columns=format&columns=rows"' in text


def send(site: FlaskClient, path: str, **form: str) -> TestResponse:
    """Post a form as its page would."""
    token = re.search(r'name="csrf_token" value="([^"]+)"', site.get("/jobs").text)
    assert token is not None
    headers = {"Accept": "text/html"}
    return site.post(path, data={**form, "csrf_token": token[1]}, headers=headers)
