"""Evaluations over HTTP with a thread in place of a worker: submit, wait, cancel,
batches, rewards, limits.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import flask
import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from app.domain import result
from app.domain.device import DeviceId
from app.domain.job import JobState
from app.store import tables
from app.store.evaluation import evaluations
from app.store.postgres.database import Database
from app.store.queue import devices, leases
from app.web.api import backpressure
from tests.integration import fakes
from tests.integration.web_app import BODY, UNKNOWN, broken, incorrect, worker


def test_submit_wait_and_look(site: FlaskClient, database: Database) -> None:
    told = site.post("/v1/evaluations", json=BODY)
    assert told.status_code == 202
    assert told.json["state"] == "queued"
    assert not told.json["known"]
    assert told.json["position"] >= 0
    again = site.post("/v1/evaluations", json=BODY)
    assert (again.status_code, again.json["job_id"], again.json["known"]) == (
        200,
        told.json["job_id"],
        True,
    )
    started = time.monotonic()
    waiting = site.get(told.location, query_string={"wait": 0.2})
    assert time.monotonic() - started >= 0.2
    assert waiting.json["state"] == "queued"
    assert set(waiting.json) == set(result.KEYS)
    with worker(database, incorrect):
        done = site.get(told.location, query_string={"wait": 25})
    assert (done.json["state"], done.json["status"]) == ("finished", "incorrect")
    assert set(done.json) == set(result.KEYS)
    assert done.json["url"].startswith("http://127.0.0.1:8000/evaluations/")


def test_an_own_key_names_one_submission(site: FlaskClient) -> None:
    headers = {"Idempotency-Key": "step-17"}
    first = site.post("/v1/evaluations", json=BODY | {"fresh": True}, headers=headers)
    again = site.post("/v1/evaluations", json=BODY | {"fresh": True}, headers=headers)
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json["job_id"] == again.json["job_id"]
    other = site.post("/v1/evaluations", json=BODY | {"candidate": "d"}, headers=headers)
    assert (other.status_code, other.json["error"]["kind"]) == (409, "conflict")
    assert site.post("/v1/evaluations", json=BODY).json["job_id"] != first.json["job_id"]


def test_each_submission_is_compared_with_the_class_that_it_names(
    site: FlaskClient, database: Database
) -> None:
    """A typo of one submitter changes nothing for the next."""
    reference = {"reference": "class Model: ...\nclass Relu: ...\n"}
    named = [{"entry_point": "Modle"}, {"entry_point": "Relu"}, {}]
    bodies = [{"problem": reference | each, "candidate": "c", "backend": "torch"} for each in named]
    told = [site.post("/v1/evaluations", json=body) for body in bodies]
    assert len({each.json["job_id"] for each in told}) == 3
    entry_points = []
    with database.begin() as connection:
        for each in told:
            lease = leases.claim(connection, UUID(each.json["job_id"]), "me", 30)
            assert lease
            entry_points.append(lease.job.entry_point)
    assert entry_points == ["Modle", "Relu", "Model"]
    names = {each["name"] for each in site.get("/v1/problems").json["problems"]}
    assert len(names) == 3, names


def test_a_key_stands_for_one_entry_point(site: FlaskClient) -> None:
    def submit(entry_point: str) -> int:
        body = {
            "problem": {"reference": "r", "entry_point": entry_point},
            "candidate": "c",
            "backend": "torch",
        }
        return site.post("/v1/evaluations", json=body, headers={"Idempotency-Key": "e"}).status_code

    assert [submit("Model"), submit("Model"), submit("Relu")] == [202, 200, 409]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"reference": "r", "device": "nowhere.0"}, "unknown device 'nowhere.0'"),
        ({"problem_id": UNKNOWN}, "problem_id: expected one that is stored"),
    ],
)
def test_what_a_request_names_has_to_be_there(
    site: FlaskClient, fields: dict[str, str], said: str
) -> None:
    body = {"candidate": "c", "backend": "torch", **fields}
    refused = site.post("/v1/evaluations", json=body)
    assert (refused.status_code, refused.json["error"]["kind"]) == (404, "not_found")
    assert said in refused.json["error"]["message"]
    batch = site.post("/v1/evaluations:batch", json={"items": [body]}).json
    assert said in batch["items"][0]["error"]["message"]


def test_a_submitter_is_told_where_no_device_takes_jobs(
    site: FlaskClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backpressure, "LINE_S", 0.0)
    told = site.post("/v1/evaluations", json=BODY).json
    assert (told["served"], told["eta_s"]) == (False, None)
    with database.begin() as connection:
        devices.register(connection, DeviceId(device_class="cpu", node="here", index=0), worker="w")
    assert site.post("/v1/evaluations", json=BODY).json["served"] is True
    with database.begin() as connection:
        devices.quarantine(connection, "here", reason="Xid 79", changed_by="test")
    assert site.post("/v1/evaluations", json=BODY).json["served"] is False


def test_one_key_at_once_is_one_job(made: Callable[..., flask.Flask], database: Database) -> None:
    apps = [made(), made()]  # two processes behind a balancer

    def submit(number: int) -> tuple[int, str]:
        headers = {"Idempotency-Key": "k"}
        told = (
            apps[number % 2]
            .test_client()
            .post("/v1/evaluations", json=BODY | {"fresh": True}, headers=headers)
        )
        return told.status_code, told.json["job_id"]

    with ThreadPoolExecutor(16) as pool:
        told = list(pool.map(submit, range(48)))
    assert len({job_id for _, job_id in told}) == 1
    assert sorted(status for status, _ in told) == [200] * 47 + [202]
    with database.begin() as connection:
        assert (
            connection.execute(sa.select(sa.func.count()).select_from(tables.jobs)).scalar_one()
            == 1
        )


BY_CASES = {"reference": fakes.CASES, "candidate": "c", "workflow": "kernel_simple"}


def by_cases(database: Database, job_id: UUID) -> None:
    with database.begin() as connection:
        lease = leases.claim(connection, job_id, "me", 30)
        assert lease
        assert lease.job.options.cases, "the worker is told"
        evaluations.add(
            connection, lease, worker="w", evaluation=fakes.by_cases(), verdict=fakes.clean()
        )


def test_a_problem_by_cases(site: FlaskClient, database: Database) -> None:
    with worker(database, by_cases):
        told = site.post("/v1/evaluations", json=BY_CASES)
        done = site.get(told.location, query_string={"wait": 25}).json
        scored = site.post("/v1/reward", json=BY_CASES).json
    assert (told.status_code, done["status"], done["speedup"]) == (202, "incorrect", None)
    assert (done["reference_us"], done["candidate_us"]) == (
        None,
        None,
    ), "the time of a wrong answer is not told"
    assert [(each["name"], each["status"]) for each in done["cases"]] == [
        ("small", "passed"),
        ("negative", "incorrect"),
    ]
    assert (scored["job_id"], scored["result"]["cases"]) == (done["job_id"], done["cases"])

    items = [
        BY_CASES,
        BY_CASES | {"workflow": "magic"},
        BY_CASES | {"reference": "class Model: ..."},
    ]
    first, unknown, model = site.post("/v1/evaluations:batch", json={"items": items}).json["items"]
    assert first["accepted"]["job_id"] == done["job_id"]
    assert (
        unknown["error"]["message"]
        == "unknown workflow 'magic'; expected one of kernel_simple, kernelbench, problem_check"
    )
    assert "get_cases()" in model["error"]["message"]

    turn = {"response": "r", "candidate": "c"}
    made = site.post("/v1/trajectories", json={**BY_CASES, "turns": [turn]} | {"candidate": None})
    assert made.status_code == 400, "a trajectory has candidates in its turns"
    how = {name: value for name, value in BY_CASES.items() if name != "candidate"}
    made = site.post("/v1/trajectories", json={**how, "turns": [turn]})
    assert made.json["turns"][0]["job_id"] == done["job_id"]
    for more in ({"workflow": "kernel_simple"}, {}):
        appended = site.post(f"{made.location}/turns", json=turn | more)
        assert appended.json["job_id"] == done["job_id"], (
            "cases and no model: nothing else can be meant"
        )
    assert site.post(f"{made.location}/turns", json=turn | {"workflow": "magic"}).status_code == 400


def test_a_key_tells_workflows_apart(site: FlaskClient) -> None:
    headers = {"Idempotency-Key": "step-17"}
    assert site.post("/v1/evaluations", json=BY_CASES, headers=headers).status_code == 202
    assert site.post("/v1/evaluations", json=BY_CASES, headers=headers).status_code == 200
    other = site.post(
        "/v1/evaluations", json=BY_CASES | {"workflow": "kernelbench"}, headers=headers
    )
    assert other.status_code == 409


def test_a_batch_answers_item_by_item(site: FlaskClient) -> None:
    items = [
        BODY,
        BODY | {"candidate": 5},
        BODY | {"gpu": "h999"},
        BODY | {"candidate": "d"},
        {"candidate": "c"},
        BODY | {"option": {}},
        BODY | {"options": {"deadline_s": 0}},
        BODY | {"idempotency_key": "k"},
        BODY | {"idempotency_key": "k", "candidate": "e"},
    ]
    told = site.post("/v1/evaluations:batch", json={"items": items})
    assert told.status_code == 202, told.text
    assert [item["accepted"] is not None for item in told.json["items"]] == [
        *(True, False, False, True, False, False, False, False, False),
    ]
    messages = [item["error"]["message"] for item in told.json["items"] if item["error"]]
    for message, said in zip(
        messages,
        [
            "Expected `str | object`, got `int` - at `$.candidate`",
            "unknown GPU class 'h999'",
            "expected one of reference, problem and problem_id, got none",
            "unknown field `option`",
            "deadline_s: expected 1 to 3600, got 0",
            "another one",
            "another one",
        ],
        strict=True,
    ):
        assert said in message
    assert site.post("/v1/evaluations:batch", json={"items": []}).status_code == 400
    assert site.post("/v1/evaluations:batch", json={"items": [{}] * 1001}).status_code == 400


def test_cancel(site: FlaskClient, database: Database) -> None:
    queued = site.post("/v1/evaluations", json=BODY).location
    site.post("/v1/evaluations", json=BODY)  # by another client
    told = [site.delete(queued) for _ in range(2)]
    assert [(each.status_code, each.json["state"], each.json["others"]) for each in told] == [
        (200, "queued", 1),
        (200, "cancelled", 0),
    ]
    for _ in range(2):
        shared = site.post("/v1/evaluations", json=BODY | {"candidate": "e"}).location
    assert site.delete(f"{shared}?for_all=true").json["state"] == "cancelled"
    running = site.post("/v1/evaluations", json=BODY | {"candidate": "d"})
    with database.begin() as connection:
        assert leases.claim(connection, UUID(running.json["job_id"]), "me", 30)
    stopping = site.delete(running.location)
    assert (stopping.status_code, stopping.json["state"]) == (202, "running")
    assert site.delete(f"/v1/evaluations/{uuid4()}").status_code == 404


def test_a_reward_is_a_number_or_an_error_that_says_which(
    site: FlaskClient, database: Database
) -> None:
    late = site.post("/v1/reward", json=BODY | {"deadline_s": 0.1})
    assert (late.status_code, late.json["error"]["kind"]) == (504, "deadline")
    with worker(database, incorrect):
        done = site.get(late.json["error"]["details"]["resume"])
        assert done.json["status"] == "incorrect"
        scored = site.post("/v1/reward", json=BODY | {"reward": "calculate_reward_like_kernel"})
    assert (scored.status_code, scored.json["reward"]) == (200, -0.3)
    assert scored.json["job_id"] == done.json["job_id"]
    with worker(database, broken):
        lost = site.post("/v1/reward", json=BODY | {"candidate": "d"})
    assert (lost.status_code, lost.json["error"]["kind"]) == (503, "infrastructure")
    assert lost.headers["Retry-After"] == "5"
    with worker(database, incorrect):
        assert site.post("/v1/reward", json=BODY | {"candidate": "d"}).status_code == 200, (
            "asked again, it runs again"
        )
    unknown = site.post("/v1/reward", json=BODY | {"reward": "best"})
    assert "expected one of dr_kernel" in unknown.json["error"]["message"]


def test_too_much_is_pressed_back(made: Callable[..., flask.Flask]) -> None:
    site = made(max_queued=1).test_client()
    assert site.post("/v1/evaluations", json=BODY).status_code == 202
    site.application.extensions["assay"]["lines"].clear()
    for path, body in (
        ("/v1/evaluations", BODY),
        ("/v1/evaluations:batch", {"items": [BODY]}),
        ("/v1/reward", BODY),
        ("/v1/trajectories", {"reference": "r"}),
    ):
        refused = site.post(path, json=body)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "60"), path
    assert site.post("/v1/evaluations", json=BODY | {"gpu": "h200"}).status_code == 202, (
        "another line"
    )


def test_odd_sources_arrive_as_they_are(site: FlaskClient, database: Database) -> None:
    odd = [("x = '\ud800\0'", b"x = '\xed\xa0\x80\x00'"), ({"base64": "//79"}, b"\xff\xfe\xfd")]
    for sent, kept in odd:
        assert site.post("/v1/evaluations", json=BODY | {"candidate": sent}).status_code == 202
        with database.begin() as connection:
            assert kept in connection.execute(sa.select(tables.candidates.c.source)).scalars().all()


def test_events_say_every_change_and_end(site: FlaskClient, database: Database) -> None:
    told = [
        site.post("/v1/evaluations", json=BODY | {"candidate": name}).json["job_id"]
        for name in "ab"
    ]
    with worker(database, incorrect):
        stream = site.get("/v1/events", query_string={"job_id": told}).text
    lines = [
        line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")
    ]
    events = [json.loads(line) for line in lines]
    assert events[-1] == {"over": 2, "total": 2}
    assert {event["job_id"] for event in events if event.get("state") == "finished"} == set(told)
    assert "event: end" in stream
    assert site.get("/v1/events").status_code == 400
    assert site.get("/v1/events", query_string={"job_id": str(uuid4())}).status_code == 404


def test_a_wait_survives_a_job_that_ends_in_between(site: FlaskClient, database: Database) -> None:
    told = site.post("/v1/evaluations", json=BODY)
    incorrect(database, UUID(told.json["job_id"]))
    assert site.get(told.location, query_string={"wait": 25}).json["state"] == JobState.FINISHED
