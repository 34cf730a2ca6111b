"""Workers of endpoints and a fake device beside a scripted endpoint, for
measurements of collections.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app import embedded
from app.client import Client
from app.domain.collection.call import EndpointConfig, Prices
from app.domain.problem import Problem
from app.embedded import Services
from app.endpoints.scripted.script import Scene, Script
from app.settings import Settings
from app.store import tables
from app.store.collection import endpoints
from app.store.postgres.database import DatabaseUnavailableError
from app.store.trajectory import problems
from tests.bench.server_kills import kill_server
from tests.bench.state_folders import state_folder
from tests.integration import fakes
from tests.waiting import until

TESTS = Path(__file__).parent.parent


PATIENCE_S = 240.0


def answer(turn: int, alternative: int) -> str:
    outcome = "passes" if (turn + alternative) % 3 else "fails"
    return f"Fine.\n```python\n# {outcome} {turn}.{alternative}\nclass ModelNew: pass\n```\n"


def script(odd: dict[str, float]) -> Script:
    turns = tuple(tuple(answer(turn, each) for each in range(40)) for turn in range(3))
    return Script(scenes=(Scene(match="class Model", turns=turns),), odd=odd)


@dataclass
class Site:
    """Everything that one collection needs, and the way to kill it."""

    settings: Settings
    generators: int
    """Workers of the endpoint."""
    calls: int
    """Calls that each of them has in flight."""
    share: float = 0.0
    """Share of a worker's transitions at which it dies (dying_generator.py)."""
    module: str = "workers.generator.app"
    """Program of these workers."""
    log: Path = Path()
    """File to which each death is appended."""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    deaths: Counter[str] = field(default_factory=Counter)

    def supervise(self) -> None:
        """Start the processes that have ended."""
        wanted = self.generators + 1
        self.processes += [self._start(number) for number in range(len(self.processes), wanted)]
        for number, process in enumerate(self.processes):
            if process.poll() is not None:
                self.processes[number] = self._start(number)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def kill(self, luck: random.Random) -> None:
        ways: dict[str, Callable[[], object]] = {
            "evaluator": self._evaluator,
            "frozen": self._frozen,
            "redis": lambda: kill_server(self.settings, "redis"),
            "redis_wiped": lambda: kill_server(self.settings, "redis", wipes=True),
            "postgres": lambda: kill_server(self.settings, "postgres"),
        }
        name = luck.choice(list(ways))
        ways[name]()
        self.deaths[name] += 1

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        if number == 0:
            return embedded.start_worker(self.settings, module=fakes.WORKER)
        own = replace(self.settings, endpoint="local", calls=self.calls)
        command = embedded.generator_command(own)
        environment = {**os.environ, **own.to_env()}
        command[command.index("workers.generator.app")] = self.module
        if self.share:
            environment |= {"DIE_SHARE": str(self.share), "DIE_LOG": str(self.log)}
        with (self.settings.state_dir / "log" / f"generator-{number}.log").open("ab") as log:
            return subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, cwd=TESTS.parent
            )

    def _evaluator(self) -> None:
        self.processes[0].kill()

    def _frozen(self) -> None:
        """Stop a worker of the endpoint for longer than its lease: its calls are lost, its answers
        refused.
        """
        worker = self.processes[1]
        worker.send_signal(signal.SIGSTOP)
        time.sleep(1.5 * self.settings.lease_s)
        worker.send_signal(signal.SIGCONT)


def specification(rollouts: int, problem_count: int, **more: Any) -> dict[str, Any]:
    return {
        "name": "bench",
        "endpoint": "local",
        "problems": {"source_set": "bench"},
        "strategy": {"name": "sequential", "samples": rollouts // problem_count, "turns": 3},
        "sampling": {"max_tokens": 512, "temperature": 1.0},
        "tries": 8,
        **more,
    }


@contextmanager
def site(
    url: str, *, problem_count: int, flight: int, silence_s: float = 3.0, **options: Any
) -> Iterator[tuple[Site, Client]]:
    """A site with an endpoint at `url` and so many problems.  `flight`: calls in flight of the
    endpoint and of each worker; `silence_s`: seconds without a token after which a call has failed;
    `options`: of Site.
    """
    config = EndpointConfig(
        name="local",
        base_url=url,
        dialect="openai",
        model="scripted",
        prices=Prices(input=1.0, output=2.0),
        max_in_flight=flight,
        first_token_s=silence_s,
        idle_s=silence_s,
    )
    names = [f"problem-{number:03}" for number in range(problem_count)]
    with (
        state_folder() as folder,
        Services(Settings(state_dir=folder, lease_s=4.0, sweep_s=0.5)) as services,
        Client(services.settings) as client,
    ):
        with client.database.begin() as connection:
            endpoints.add(connection, config)
            problems.add(connection, [_problem(name) for name in names])
        opened = Site(services.settings, calls=flight, log=folder / "deaths", **options)
        try:
            opened.supervise()
            yield opened, client
        finally:
            opened.close()


def _problem(name: str) -> Problem:
    reference = f"class Model: ...  # {name}".encode()
    return Problem(name=name, reference=reference, source_set="bench")


def patiently(client: Client, query: Any) -> list[Any]:
    """Rows, as soon as PostgreSQL is there."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with client.database.begin() as connection:
                return list(connection.execute(query))
        except DatabaseUnavailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def watched(
    opened: Site, client: Client, collection_id: UUID, *, every_s: float = 0.0, seed: int = 0
) -> dict[str, Any]:
    """Wait for the end, with a kill every few seconds; the observations made on the way."""
    luck, began = random.Random(seed), time.monotonic()
    next_kill, looks, passed = began + every_s, 0, 0
    moved_at, before = began, -1
    c = tables.collections.c
    query = sa.select(tables.collections).where(c.collection_id == collection_id)
    while True:
        opened.supervise()
        (row,) = patiently(client, query)
        looks += 1
        for name in ("calls", "tokens", "usd", "evaluations"):
            cap = getattr(row, f"cap_{name}")
            passed += (
                cap is not None
                and getattr(row, f"spent_{name}") + getattr(row, f"reserved_{name}") > cap
            )
        if row.state != "running":
            return {
                "seconds": round(time.monotonic() - began, 1),
                "looks": looks,
                "budget_passed": passed,
            }
        if row.spent_calls != before:
            before, moved_at = row.spent_calls, time.monotonic()
        if time.monotonic() > moved_at + PATIENCE_S:
            raise TimeoutError(f"nothing moves: {row}")
        if every_s and time.monotonic() > next_kill:
            opened.kill(luck)
            next_kill = time.monotonic() + every_s * luck.uniform(0.5, 1.5)
        time.sleep(0.2)


def stats(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats", timeout=10) as response:
        return dict(json.load(response))


def wait_for_workers(client: Client, count: int) -> None:
    """Wait until so many workers of the endpoint, and a device, have registered."""

    def rows(table: sa.Table) -> int:
        ((number,),) = patiently(client, sa.select(sa.func.count()).select_from(table))
        return int(number)

    until(lambda: rows(tables.endpoint_workers) >= count and rows(tables.devices), PATIENCE_S)
