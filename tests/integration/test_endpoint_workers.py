"""Workers of endpoints that `assay up` and `assay collect serve` keep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli import child_processes, supervisor
from app.cli.endpoint_workers import EndpointWorkers
from app.client import Client
from app.domain.collection.call import EndpointConfig
from app.domain.problem import Problem
from app.endpoints.scripted.process import running
from app.endpoints.scripted.script import Scene, Script
from app.settings import Settings
from app.store.collection import endpoints, workers
from app.store.trajectory import problems
from tests.waiting import LIMIT_S, until

SCRIPT = Script(scenes=(Scene(match="class Model", turns=(("no code",),)),))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running(SCRIPT) as found:
        yield found


def add(client: Client, name: str, address: str, key_env: str | None = None) -> None:
    config = EndpointConfig(
        name=name, base_url=address, dialect="chat", model="scripted", key_env=key_env
    )
    with client.database.begin() as connection:
        endpoints.add(connection, config)


def online(client: Client) -> set[str]:
    with client.database.begin() as connection:
        return {each.endpoint for each in workers.online(connection) if each.has_key}


def test_workers_follow_the_endpoints_that_are_stored(
    settings: Settings, client: Client, address: str, capfd: pytest.CaptureFixture[str]
) -> None:
    add(client, "here", address)
    add(client, "elsewhere", address, key_env="KEY_THAT_IS_NOT_SET_HERE")
    kept = EndpointWorkers(settings)
    try:
        now_s = 0.0

        def look() -> None:
            nonlocal now_s
            now_s += supervisor.LONGEST_PAUSE_S
            kept.keep(now_s)

        look()
        look()
        said = capfd.readouterr()
        assert said.err.count("KEY_THAT_IS_NOT_SET_HERE") == 1
        (child,) = kept.children
        assert f"generator here: pid {child.process.pid}, log {child.log}" in said.out
        until(lambda: online(client) == {"here"})

        child.process.kill()
        child.process.wait()
        look()
        look()
        assert kept.children == [child]
        assert child.process.poll() is None
        assert "generator here ended with signal 9; starting it again" in capfd.readouterr().err

        with client.database.begin() as connection:
            endpoints.remove(connection, "here")
        look()
        until(lambda: child.process.poll() is not None)
        look()
        assert kept.children == []
    finally:
        child_processes.stop(kept.children)
        kept.close()


def test_a_collection_starts_the_worker_that_it_needs(
    settings: Settings, client: Client, address: str, tmp_path: Path
) -> None:
    with client.database.begin() as connection:
        problems.add(
            connection, [Problem(name="softmax", reference=b"class Model: ...", source_set="tests")]
        )
    command = [str(Path(sys.executable).with_name("assay")), "collect", "serve"]
    environment = {**os.environ, **settings.to_env()}
    log = tmp_path / "log"
    with log.open("wb") as output:
        serving = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        add(client, "late", address)
        name = client.collect(
            {
                "name": "a",
                "endpoint": "late",
                "problems": {"source_set": "tests"},
                "strategy": {"name": "independent"},
            }
        )
        until(lambda: client.collection(name)["state"] == "finished")
        assert client.collection(name, full=True)["quality"]["without_code"] == 1
    finally:
        serving.send_signal(signal.SIGTERM)
        serving.wait(LIMIT_S)
    assert serving.returncode == 0, log.read_text()
    assert "celery" in log.read_text().lower()
    assert online(client) == set()
