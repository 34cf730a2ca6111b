"""The Python interface over HTTP: the same answers as in process, from a real
server, through faults of all kinds.
"""

from __future__ import annotations

import http.server
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.client import (
    Client,
    NotAllowedError,
    ServiceError,
    Submission,
    UnknownJobError,
    database_transport,
    http_transport,
)
from app.domain import result
from app.domain.device import DeviceId
from app.domain.job import JobState
from app.domain.problem import Problem
from app.domain.request import RequestError
from app.domain.trajectory import Message, Run, Turn
from app.domain.user import Role, Scope
from app.settings import Settings
from app.store.postgres.database import Database
from app.store.queue import devices
from app.store.user import tokens, users
from tests.integration import fakes
from tests.integration.web_app import incorrect, worker
from tests.ports import free_port


@contextmanager
def served(settings: Settings, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A web server in this process."""
    command = [
        sys.executable,
        "-m",
        "gevent.monkey",
        "--module",
        "app.web.serve",
        "--port",
        str(port),
    ]
    server = subprocess.Popen(command, env={**settings.to_env()})
    try:
        yield server
    finally:
        server.terminate()
        assert server.wait(20) == 0


@pytest.fixture
def server(settings: Settings) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with served(settings, port):
        for _ in range(100):
            try:
                urllib.request.urlopen(f"{url}/healthz", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield url


@pytest.fixture
def remote_client(server: str) -> Iterator[Client]:
    with Client(url=server) as opened:
        yield opened


def test_the_same_as_in_process(
    remote_client: Client, client: Client, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [
        Submission(reference="r", candidate=f"c{number % 20}", backend="torch")
        for number in range(30)
    ]
    odd: list[Mapping[str, Any]] = [
        {"reference": b"r\xff", "candidate": "\ud800\0"},
        {"reference": Problem(name="p", reference=b"r"), "candidate": b""},
    ]
    with worker(database, incorrect):
        results = remote_client.evaluate_many([*many, *odd], progress=True, timeout_s=60)
        local = client.results([UUID(str(each["job_id"])) for each in results])
        assert results == json.loads(json.dumps(local)), "the same, tuples aside"
        assert [handle.job_id for handle in client.submit_many([*many, *odd])] == [
            UUID(str(each["job_id"])) for each in results
        ]
    assert set(results[0]) == set(result.KEYS)
    assert "22/22" in capsys.readouterr().err
    fresh = [
        remote_client.submit(reference="r", candidate="c0", backend="torch", fresh=True).job_id
        for _ in range(2)
    ]
    assert len({*fresh, UUID(str(results[0]["job_id"]))}) == 3
    for each in (client, remote_client):
        assert each.results([str(results[0]["job_id"])])[0]["status"] == "incorrect"
    jobs_end_alike(remote_client)
    trajectories_are_alike(remote_client, client)
    problems_by_cases_are_alike(remote_client, client)
    for bad in (
        {"backend": "fortran"},
        {"gpu": "h999"},
        {"priority": "now"},
        {"options": {"deadline_s": 0}},
    ):
        with pytest.raises(RequestError, match="expected"):
            remote_client.submit_many([{"reference": "r", "candidate": "c", **bad}])


def jobs_end_alike(remote_client: Client) -> None:
    job = remote_client.submit(
        reference="r", candidate="waits", timing_budget_s=0, run="a", priority="high"
    )
    said = r"1 of 1 jobs were not over after 0\.2 s; no worker for 'cpu' is online"
    with pytest.raises(TimeoutError, match=said):
        job.wait(timeout_s=0.2)
    assert job.cancel() is JobState.CANCELLED
    assert job.wait(timeout_s=5)["state"] == "cancelled"
    for ask in (
        remote_client.cancel,
        lambda job_id: remote_client.wait([job_id]),
        lambda i: remote_client.results([i]),
    ):
        with pytest.raises(UnknownJobError):
            ask(uuid4())


TURNS = [
    Turn(messages=(Message(role="user", content="\0\ud800"),), response="r1", candidate="t1"),
    Turn(messages=(), response="r2", candidate=None),
]


def trajectories_are_alike(remote_client: Client, client: Client) -> None:
    stored = remote_client.submit_trajectory(
        reference="r", turns=TURNS, run=Run(name="b", model="m"), label="mine"
    )
    assert (
        stored
        == client.get_trajectory(stored.trajectory_id)
        == remote_client.get_trajectory(stored.trajectory_id)
    )
    with pytest.raises(RequestError, match=r"expected .* as before"):
        remote_client.submit_trajectory(
            reference="r", turns=TURNS, run=Run(name="b", model="other")
        )
    with pytest.raises(LookupError):
        remote_client.get_trajectory(uuid4())

    plain = {"response": "r", "candidate": "t1", "messages": [{"role": "user", "content": "hello"}]}
    run = Run(name="c", model="m")
    both = [
        each.submit_trajectory(reference="r", turns=[plain], run=run).turns
        for each in (client, remote_client)
    ]
    assert both[0] == both[1]
    assert both[0][0].messages == (Message(role="user", content="hello"),)
    for each in (client, remote_client):
        with pytest.raises(RequestError, match=r"expected .* as before"):
            each.submit_trajectory(reference="r", turns=[plain], run=Run(name="c", model="other"))
        with pytest.raises(RequestError, match="unknown devise; expected some of baseline"):
            each.submit_trajectory(reference="r", turns=[plain], devise="nowhere.0")


def problems_by_cases_are_alike(remote_client: Client, client: Client) -> None:
    by_cases = {"reference": fakes.CASES, "candidate": "c", "workflow": "kernel_simple"}
    [first] = remote_client.submit_many([by_cases])
    assert first.job_id == client.submit_many([by_cases])[0].job_id
    stored = remote_client.submit_trajectory(
        reference=fakes.CASES, turns=[replace(TURNS[0], candidate="c")], workflow="kernel_simple"
    )
    assert stored.turns[0].job_id == first.job_id
    with pytest.raises(
        RequestError, match="unknown workflow 'magic'; expected one of kernel_simple, kernelbench"
    ):
        remote_client.submit(reference="r", candidate="c", workflow="magic")


def test_tokens_are_shared_by_five_hundred_waiting_calls(server: str, database: Database) -> None:
    with database.begin() as connection:
        ada = users.add(connection, name="ada", role=Role.ADMIN, password_hash=None)
        _, token = tokens.add(
            connection, user_id=ada.user_id, name="t", scopes=[Scope.READ, Scope.SUBMIT]
        )
    time.sleep(1.1)  # the server looks for the first user once a second
    with Client(url=server) as stranger, pytest.raises(NotAllowedError, match="Bearer"):
        stranger.submit(reference="r", candidate="c")
    with Client(url=server, token=token) as client:
        job = client.submit(reference="r", candidate="c")
        sockets = [
            socket.create_connection(("127.0.0.1", int(server.rpartition(":")[2])))
            for _ in range(500)
        ]
        path = f"/v1/evaluations/{job.job_id}?wait=30"
        ask = f"GET {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        for each in sockets:
            each.sendall(ask.encode())
        assert job.result()["state"] == "queued", "others are served meanwhile"
        incorrect(database, job.job_id)
        for each in sockets:
            each.settimeout(30)
            with each, each.makefile("rb") as answer:
                assert b" 200 " in answer.readline()


class Faulty(http.server.BaseHTTPRequestHandler):
    """Fails in every way before it answers."""

    faults: list[tuple[int, dict[str, str], bytes]]
    asked: list[dict[str, object]]

    def do_POST(self) -> None:
        self.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        status, headers, body = self.faults.pop(0) if self.faults else (200, {}, b'{"items": []}')
        if status == 0:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[type[Faulty], str]]:
    monkeypatch.setattr(http_transport, "BACKOFF_S", (0.01, 0.02))
    Faulty.faults, Faulty.asked = [], []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Faulty) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield Faulty, f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


def test_what_may_pass_is_tried_again_with_the_same_key(faulty: tuple[type[Faulty], str]) -> None:
    handler, url = faulty
    job_id = str(uuid4())
    item = {"index": 0, "accepted": {"job_id": job_id}, "error": None}
    handler.faults = [
        (0, {}, b""),
        (429, {"Retry-After": "0"}, b"{}"),
        (502, {}, b"<html>bad gateway</html>"),
        (503, {}, b'{"error": {"message": "away"}}'),
        (200, {}, b"<html>a proxy's login</html>"),
        (200, {}, json.dumps({"items": [item]}).encode()),
    ]
    with Client(url=url) as client:
        assert str(client.submit(reference="r", candidate="c", fresh=True).job_id) == job_id
    keys = {each["items"][0]["idempotency_key"] for each in handler.asked}  # type: ignore[index]
    assert (len(handler.asked), len(keys)) == (6, 1)


def test_a_server_that_asks_for_more_patience_than_there_is_is_asked_once_more(
    faulty: tuple[type[Faulty], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retry-After: 60, as Assay's server says while its queue is full, and as long
    as the patience is.
    """
    handler, url = faulty
    monkeypatch.setattr(http_transport, "PATIENCE_S", 0.2)
    accepted = {"items": [{"index": 0, "accepted": {"job_id": str(uuid4())}, "error": None}]}
    handler.faults = [(429, {"Retry-After": "60"}, b"{}"), (200, {}, json.dumps(accepted).encode())]
    with Client(url=url) as client:
        client.submit(reference="r", candidate="c")
    assert len(handler.asked) == 2


def test_what_does_not_pass_raises(
    faulty: tuple[type[Faulty], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    handler, url = faulty
    monkeypatch.setattr(http_transport, "PATIENCE_S", 0.2)
    handler.faults = [(503, {}, b'{"error": {"message": "PostgreSQL does not answer"}}')] * 1000
    with Client(url=url) as client, pytest.raises(ServiceError, match="PostgreSQL does not answer"):
        client.submit(reference="r", candidate="c")
    with (
        Client(url=f"http://127.0.0.1:{free_port()}") as client,
        pytest.raises(ServiceError, match="refused"),
    ):
        client.results([uuid4()])


def test_urls(settings: Settings) -> None:
    for url in ("ftp://host", "host:8000", "http://user:secret@host"):
        with pytest.raises(ValueError, match="url: expected") as refused:
            Client(url=url)
        assert "secret" not in str(refused.value)
    with pytest.raises(ValueError, match="got both"):
        Client(settings, url="http://host")
    with (
        Client(url="http://host") as client,
        pytest.raises(RuntimeError, match="expected a client in process"),
    ):
        _ = client.database


def test_jobs_that_no_worker_serves_are_told_of(
    remote_client: Client,
    client: Client,
    database: Database,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database_transport, "STARTS_S", 0.0)
    with database.begin() as connection:
        place = DeviceId(device_class="h200", node="here", index=0)
        devices.register(connection, place, worker="w")
    for each in (client, remote_client):
        caplog.clear()
        served, unserved = (
            each.submit(reference="r", candidate="c", gpu=gpu) for gpu in ("h200", "b200")
        )
        with pytest.raises(TimeoutError, match=r"2 of 2 .* s; no worker for 'b200' is online$"):
            each.wait([served, unserved], timeout_s=0.3)
        assert caplog.messages == ["no worker for 'b200' is online: 1 of 2 jobs wait for one"]
        with pytest.raises(TimeoutError, match=r"after 0\.1 s$"):
            each.wait([served], timeout_s=0.1)
