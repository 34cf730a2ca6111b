"""A client that writes to Valkey directly costs time and nothing else: no worker
stops, and every job is evaluated.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
from celery import Celery

from app import broker as brokers
from app import enqueue, redis_transport, routing
from app.cli import diagnostics, doctor_check
from app.client import Client
from app.settings import Settings
from tests.integration import fakes
from tests.waiting import LIMIT_S, until

Start = Callable[..., Popen[bytes]]

ID = str(uuid4())


def ours(**changes: Any) -> dict[str, Any]:
    """A message as a worker would take it, with some of its parts replaced."""
    message = redis_transport.message(ID, "cpu")
    for key, value in changes.items():
        part, _, name = key.partition("__")
        if name:
            message[part.replace("_", "-") if part == "content" else part][name] = value
        else:
            message[key.replace("_", "-") if key.startswith("content") else key] = value
    return message


def without(*names: str) -> dict[str, Any]:
    message = ours()
    for name in names:
        del message[name]
    return message


class Executed:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (str(self.path),)


REFUSED: list[Any] = [
    "not json at all",
    b"\xff\xfe\x00 not text",
    "[]",
    "null",
    "1",
    '"text"',
    "{}",
    "[" * 20_000,
    '{"a":' * 5_000 + "1" + "}" * 5_000,
    '{"__type__": "datetime", "__value__": "never"}',
    without("headers"),
    without("properties"),
    without("body"),
    ours(headers=None),
    ours(body=None),
    ours(body=["a"]),
    ours(body="A" * 500_000),
    ours(content_type="application/x-python-serialize"),
    ours(content_type="application/x-yaml"),
    ours(content_type=["application/json"]),
    ours(content_encoding="utf-16"),
    ours(properties=[]),
    ours(properties__body_encoding="zlib"),
    ours(headers__task="celery.backend_cleanup"),
    ours(headers__task="celery.chord_unlock"),
    ours(headers__task=["job.evaluate"]),
    ours(headers__id=None),
    ours(headers__id=["a"]),
    ours(headers__id="1; DROP TABLE jobs"),
    ours(headers__id=ID.upper().replace("-", "")),
]
HARMLESS: list[Any] = [
    ours(body=base64.b64encode(b"garbage").decode()),
    ours(headers__timelimit=["a", "b"]),
    ours(headers__eta="yesterday"),
    ours(headers__expires={"a": 1}),
    ours(headers__retries="many"),
    ours(headers__stamps="x"),
    ours(headers__group={"x": 1}),
    ours(properties__reply_to="victim"),
    ours(properties__delivery_info=None),
    ours(properties__delivery_tag=["tag"]),
    ours(properties__priority="high"),
    ours(),
    ours(body=base64.b64encode(b'[["a"], {}, {}]').decode()),
]
"""Only the id of these is read, which names no job."""


@pytest.mark.parametrize("payload", [each for each in REFUSED if isinstance(each, dict)])
def test_foreign_messages_are_refused(payload: Any) -> None:
    with pytest.raises(redis_transport.RefusedError, match="expected"):
        redis_transport.task_id(payload)


@pytest.mark.parametrize("payload", HARMLESS)
def test_of_any_other_message_the_id_is_taken(payload: Any) -> None:
    assert redis_transport.task_id(json.loads(json.dumps(payload))) == ID


@pytest.mark.parametrize("task", [routing.EVALUATE, routing.CALL, routing.DECIDE])
def test_a_message_is_made_as_celery_makes_it(
    broker: Celery, valkey: redis.Redis, task: str
) -> None:
    """All headers that Assay's sender writes, but for its name and the delivery's own tag."""
    brokers.publish(broker, [brokers.Message(row_id=UUID(ID), queue="cpu", task=task)])
    sent, made = json.loads(valkey.lpop("cpu")), redis_transport.message(ID, "cpu", task)  # type: ignore[arg-type]
    for message in (sent, made):
        message["headers"].pop("origin")
        message["properties"].pop("delivery_tag")
        message["body"] = json.loads(base64.b64decode(message["body"]))
    assert made == sent
    assert made["body"][0] == ([ID] if task == routing.DECIDE else []), (
        "only a decision is about a row"
    )


def test_permissions_name_no_row(broker: Celery, valkey: redis.Redis) -> None:
    brokers.publish(broker, [brokers.Message(queue="cpu")] * 2)
    sent = [json.loads(valkey.lpop("cpu")) for _ in range(2)]  # type: ignore[arg-type]
    assert len({redis_transport.task_id(each) for each in sent}) == 2
    assert {base64.b64decode(each["body"])[:4] for each in sent} == {b"[[],"}


@pytest.fixture
def valkey(settings: Settings) -> Iterator[redis.Redis]:
    path = re.fullmatch(r"redis\+socket://:(.*)@(.*)\?virtual_host=0", settings.broker_url or "")
    assert path is not None
    with redis.Redis(unix_socket_path=path[2], password=path[1]) as client:
        yield client


def test_a_poisoned_broker_costs_nothing_but_time(
    client: Client,
    settings: Settings,
    valkey: redis.Redis,
    start_worker: Start,
    tmp_path: Path,
) -> None:
    marker = tmp_path / "executed"
    pickled = ours(
        content_type="application/x-python-serialize",
        body=base64.b64encode(pickle.dumps(Executed(marker))).decode(),
    )
    before = evaluated(client, 3, prefix="before")
    poison(valkey, [*REFUSED, pickled, *HARMLESS])
    valkey.hset("unacked", "tag", "no json")
    valkey.hset("unacked", "other", json.dumps([1]))
    valkey.zadd("unacked_index", {"tag": 0, "other": 0})
    log = settings.state_dir / "log" / "worker-cpu-0.log"
    worker = start_worker(settings=replace(settings, sweep_s=0.5), module=fakes.WORKER)
    client.wait(before, timeout_s=LIMIT_S)

    shutdown = json.dumps({"method": "shutdown", "arguments": {}, "destination": None})
    listeners = valkey.publish("/0.celery.pidbox", shutdown)
    valkey.publish("/0.celery.pidbox", "no json")
    valkey.publish("/0.celery.pidbox", '{"a":' * 5_000)
    assert listeners == 1
    poison(valkey, REFUSED * 30)  # a full queue
    client.wait(evaluated(client, 3, prefix="after"), timeout_s=LIMIT_S)

    with pytest.raises(
        redis.ConnectionError
    ):  # the server itself takes no message of more than 1 MB
        valkey.lpush("cpu", "A" * (2 << 20))
    valkey.delete("cpu")
    valkey.set("cpu", "no list")
    until(lambda: valkey.type("cpu") != b"string")
    client.wait(evaluated(client, 2, prefix="last"), timeout_s=LIMIT_S)

    until(lambda: valkey.llen("cpu") == 0)
    until(lambda: not valkey.exists("unacked"))
    until(lambda: said(settings) is not None)
    written = log.read_text()
    assert worker.poll() is None, written[-2000:]
    assert not marker.exists()
    assert "refused a message in queue 'cpu'" in written
    assert "Traceback" not in written


def said(settings: Settings) -> doctor_check.Check | None:
    """The check of `assay doctor` about messages."""
    return next((check for check in diagnostics.run(settings) if check.name == "messages"), None)


def poison(valkey: redis.Redis, messages: list[Any]) -> None:
    with valkey.pipeline() as pipe:
        for message in messages:
            pipe.lpush("cpu", message if isinstance(message, str | bytes) else json.dumps(message))
        pipe.execute()


def evaluated(client: Client, number: int, prefix: str) -> list[UUID]:
    requests = [
        fakes.request(f"slow 0.00{index}\nlog /dev/null {prefix}") for index in range(number)
    ]
    return enqueue.enqueue(client.database, client.broker, requests)
