"""Collections over HTTP and through the client, and with real workers."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient

from app import embedded
from app.client import Client
from app.domain.collection.call import EndpointConfig, Prices
from app.domain.problem import Problem
from app.domain.request import ConflictError, MissingError, RequestError
from app.domain.user import Role, Scope
from app.endpoints.scripted.behaviour import Behaviour
from app.endpoints.scripted.process import running
from app.endpoints.scripted.script import Scene, Script
from app.settings import Settings
from app.store.collection import endpoints
from app.store.postgres.database import Database
from app.store.trajectory import problems
from app.store.user import tokens, users
from app.web import create_app
from tests.integration import fakes

SPEC: dict[str, Any] = {
    "name": "http",
    "endpoint": "local",
    "problems": {"source_set": "tests"},
    "strategy": {"name": "sequential", "samples": 2, "turns": 2},
    "sampling": {"max_tokens": 100},
    "budgets": {"collection": {"tokens": 1_000_000}},
}


def store(database: Database, url: str = "http://127.0.0.1:1/v1") -> None:
    prices = Prices(input=1.0, output=2.0)
    config = EndpointConfig(
        name="local", base_url=url, dialect="openai", model="scripted", prices=prices
    )
    with database.begin() as connection:
        endpoints.add(connection, config)
        problems.add(
            connection, [Problem(name="softmax", reference=b"class Model: ...", source_set="tests")]
        )


@pytest.fixture
def app(settings: Settings) -> Iterator[flask.Flask]:
    made = create_app(settings)
    yield made
    parts = made.extensions["assay"]
    parts["watch"].close()
    parts["submit_batcher"].broker.close()
    parts["database"].dispose()


@pytest.fixture
def site(app: flask.Flask, database: Database) -> FlaskClient:
    store(database)
    return app.test_client()


def test_a_collection_is_started_looked_at_paused_resumed_and_stopped_over_http(
    site: FlaskClient,
) -> None:
    planned = site.post("/v1/collections:plan", json={"spec": SPEC})
    assert (planned.status_code, planned.json["rollouts"], planned.json["attempts_each"]) == (
        200,
        2,
        2,
    )
    assert site.get("/v1/collections").json == {"collections": []}
    made = site.post("/v1/collections", json={"spec": SPEC})
    assert made.status_code == 201
    address = made.headers["Location"]
    assert site.get(address).json["rollouts"] == 2
    assert (
        site.post("/v1/collections", json={"spec": SPEC}).json["collection_id"]
        == made.json["collection_id"]
    )
    other = site.post("/v1/collections", json={"spec": SPEC | {"seed": 1}})
    assert (other.status_code, other.json["error"]["kind"]) == (409, "conflict")
    for action, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
        told = site.post(f"/v1/collections/http:{action}", json={})
        assert (told.status_code, told.json["state"]) == (200, state)
    assert site.post("/v1/collections/http:resume", json={}).status_code == 409
    full = site.get("/v1/collections/http?full=true").json
    assert full["ends"] == {"stopped": 2}
    assert full["quality"]["answers"] == 0
    assert [each["name"] for each in site.get("/v1/collections").json["collections"]] == ["http"]


def test_a_name_with_a_slash_is_an_address(site: FlaskClient) -> None:
    assert (
        site.post("/v1/collections", json={"spec": SPEC | {"name": "level 2/softmax"}}).status_code
        == 201
    )
    address = "/v1/collections/level%202%2Fsoftmax"
    assert site.get(address).json["name"] == "level 2/softmax"
    assert site.post(f"{address}:stop", json={}).json["state"] == "stopped"
    assert site.get("/v1/collections/none%2Fsuch").status_code == 404


@pytest.mark.parametrize(
    ("change", "status", "named"),
    [
        ({"budgets": {"collection": {"tokens": 1 << 63}}}, 400, "budgets.collection.tokens"),
        ({"budgets": {"collection": {"usd": 10**400}}}, 400, "budgets.collection.usd"),
        ({"options": {"check": True}}, 400, "options.check: unknown key"),
        ({"strategi": {}}, 400, "strategi: unknown key"),
        ({"budgets": {"collection": {"usd": 0}}}, 400, "budgets.collection.usd"),
        ({"endpoint": "nowhere"}, 404, "nowhere"),
        ({"problems": {"names": ["tanh"]}}, 404, "tanh"),
        ({"prompts": {"problem": "poem"}}, 404, "poem"),
        ({"name": "a\u0000"}, 400, "NUL"),
    ],
)
def test_a_bad_specification_is_named_and_nothing_is_stored(
    site: FlaskClient, change: dict[str, Any], status: int, named: str
) -> None:
    told = site.post("/v1/collections", json={"spec": SPEC | change})
    assert told.status_code == status
    assert named in told.json["error"]["message"]
    assert site.get("/v1/collections").json == {"collections": []}
    assert site.get("/v1/runs").json["runs"] == []


def test_starting_wants_the_scope_to_submit(app: flask.Flask, database: Database) -> None:
    store(database)
    with database.begin() as connection:
        user_id = users.add(connection, name="reader", role=Role.ADMIN, password_hash="x").user_id
        _, secret = tokens.add(
            connection, user_id=user_id, name="t", scopes=frozenset({Scope.READ})
        )
    headers = {"Authorization": f"Bearer {secret}"}
    site = app.test_client()
    assert site.get("/v1/collections", headers=headers).status_code == 200
    assert site.post("/v1/collections", json={"spec": SPEC}, headers=headers).status_code == 403
    assert site.post("/v1/collections", json={"spec": SPEC}).status_code == 401


def test_the_client_stores_the_files_that_a_specification_names(
    client: Client, database: Database, tmp_path: Path
) -> None:
    store(database)
    (tmp_path / "gelu.py").write_text("class Model: pass")
    spec = SPEC | {"problems": {"files": ["gelu.py"]}}
    planned = client.plan_collection(spec, folder=tmp_path)
    assert (planned["problems"], planned["sources"]) == (1, 1)
    twice = Problem(name="gelu", reference=b"class Model: pass", source_set="mine")
    with database.begin() as connection:
        problems.add(connection, [twice])
    named = SPEC | {"problems": {"names": ["gelu"]}}
    planned = client.plan_collection(named, folder=tmp_path)
    assert (planned["problems"], planned["sources"]) == (2, 1)
    found = client.collection(client.collect(spec, folder=tmp_path))
    assert (found["problems"], found["rollouts"]) == (1, 2)
    with pytest.raises(
        RequestError, match=r"problems.files: expected a file that can be read, got .*none\.py"
    ):
        client.collect(SPEC | {"name": "b", "problems": {"files": ["none.py"]}}, folder=tmp_path)
    with pytest.raises(MissingError):
        client.collection("nothing")
    assert client.change_collection("http", "stop")["state"] == "stopped"
    with pytest.raises(ConflictError, match="can be resumed, got one that is stopped"):
        client.change_collection("http", "resume")


CODE = "```python\n# passes {}\nclass ModelNew: pass\n```"


@pytest.mark.timeout(120)
def test_workers_bring_a_collection_to_its_end_although_one_is_killed(
    settings: Settings, client: Client, start_worker: Callable[..., Popen[bytes]]
) -> None:
    scene = Scene(match="class Model", turns=((CODE.format(1), CODE.format(2)), (CODE.format(3),)))
    with running(Script(scenes=(scene,))) as url:
        store(client.database, url)
        start_worker(module=fakes.WORKER)
        first = embedded.start_generator(replace(settings, calls=4), endpoint="local")
        name = client.collect(SPEC | {"strategy": {"name": "sequential", "samples": 6, "turns": 2}})
        wait(client, lambda: client.collection(name)["spent"]["calls"] > 2)
        first.kill()
        first.wait()
        second = embedded.start_generator(replace(settings, calls=4), endpoint="local")
        try:
            wait(client, lambda: client.collection(name)["state"] == "finished")
        finally:
            second.kill()
            second.wait()
    found = client.collection(name, full=True)
    assert found["ends"] == {"max_turns": 6}
    assert (found["quality"]["answers"], found["quality"]["correct"]) == (12, 12)
    assert found["attempts"] == {"done": 12}
    assert sum(each["answered"] for each in found["calls"]) == 12
    assert not any(found["reserved"].values())


@pytest.mark.timeout(120)
def test_a_server_that_comes_late_and_restarts_in_the_middle_costs_no_answer(
    settings: Settings, client: Client, start_worker: Callable[..., Popen[bytes]]
) -> None:
    """vLLM loads its model for minutes, and again with new weights."""
    scene = Scene(match="class Model", turns=((CODE.format(1),), (CODE.format(2),)))
    script, slow = Script(scenes=(scene,)), Behaviour(first_token_s=0.3)
    spec = SPEC | {
        "tries": 2,
        "strategy": {"name": "sequential", "samples": 4, "turns": 2},
        "budgets": {"collection": {"calls": 12}},
    }
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store(client.database, f"http://127.0.0.1:{port}/v1")
    start_worker(module=fakes.WORKER)
    worker = embedded.start_generator(replace(settings, calls=2), endpoint="local")
    try:
        name = client.collect(spec)
        wait(client, lambda: client.collection(name)["state"] == "paused")
        assert f"port={port}" in client.collection(name)["reason"]
        with running(script, slow, port=port):
            client.change_collection(name, "resume")
            wait(client, lambda: client.collection(name, full=True)["quality"]["answers"] > 2)
        wait(client, lambda: f"port={port}" in (client.collection(name)["waits_for"] or ""))
        with running(script, slow, port=port):
            wait(client, lambda: client.collection(name)["state"] == "finished")
    finally:
        worker.kill()
        worker.wait()
    found = client.collection(name, full=True)
    assert (found["ends"], found["attempts"]) == ({"max_turns": 4}, {"done": 8})
    assert (found["quality"]["answers"], found["quality"]["correct"]) == (8, 8)
    assert found["calls"][0]["errors"]["timeout_connect"] > 2
    assert not any(found["reserved"].values())


def wait(client: Client, condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < until, client.collections()
        time.sleep(0.1)
