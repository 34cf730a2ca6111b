"""Workers of endpoints and a fake device beside a scripted endpoint, for
measurements of collections.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
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
from app.embedded import Services, process_lookup
from app.endpoints.scripted.script import Scene, Script
from app.settings import Settings
from app.store import endpoints, problems, tables
from app.store.database import DatabaseUnavailableError
from tests.integration import fakes

TESTS = Path(__file__).parent.parent


PATIENCE_S = 240.0


def code(turn: int, alternative: int) -> str:
    outcome = "passes" if (turn + alternative) % 3 else "fails"
    return f"Fine.\n```python\n# {outcome} {turn}.{alternative}\nclass ModelNew: pass\n```\n"


def script(odd: dict[str, float]) -> Script:
    turns = tuple(tuple(code(turn, each) for each in range(40)) for turn in range(3))
    return Script(scenes=(Scene(match="class Model", turns=turns),), odd=odd)


@dataclass
class Site:
    """Everything that one collection needs, and the way to kill it."""

    settings: Settings
    generators: int
    calls: int
    share: float = 0.0
    module: str = "workers.generator.app"
    log: Path = Path()
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
        ways = {
            "evaluator": self._evaluator,
            "frozen": self._frozen,
            "redis": self._redis,
            "redis_wiped": self._wiped,
            "postgres": self._postgres,
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
        """A worker of the endpoint stands still for longer than its lease: its calls
        are lost, its answers refused.
        """
        worker = self.processes[1]
        worker.send_signal(signal.SIGSTOP)
        time.sleep(1.5 * self.settings.lease_s)
        worker.send_signal(signal.SIGCONT)

    def _redis(self) -> None:
        self._server("redis", "valkey.pid", wipe=False)

    def _wiped(self) -> None:
        self._server("redis", "valkey.pid", wipe=True)

    def _postgres(self) -> None:
        self._server("postgres/data", "postmaster.pid", wipe=False)

    def _server(self, folder: str, pid_file: str, *, wipe: bool) -> None:
        home = self.settings.state_dir / folder
        pid = process_lookup.alive_in(home, home / pid_file)
        if pid is None:
            return
        os.kill(pid, signal.SIGKILL)
        process_lookup.wait_until_unused(home, 30)
        if wipe:
            shutil.rmtree(home / "appendonlydir")
        with Services(replace(self.settings, database_url=None, broker_url=None)):
            pass  # it stays: this process has the services open


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
    folder = Path(tempfile.mkdtemp(prefix="assay-bench-", dir="/var/tmp"))
    folder.chmod(0o711)
    try:
        with (
            Services(Settings(state_dir=folder, lease_s=4.0, sweep_s=0.5)) as services,
            Client(services.settings) as client,
        ):
            with client.database.begin() as connection:
                prices = Prices(input=1.0, output=2.0)
                config = EndpointConfig(
                    name="local",
                    base_url=url,
                    dialect="openai",
                    model="scripted",
                    prices=prices,
                    max_in_flight=flight,
                    first_token_s=silence_s,
                    idle_s=silence_s,
                )
                endpoints.add(connection, config)
                names = [f"problem-{number:03}" for number in range(problem_count)]
                references = [f"class Model: ...  # {name}".encode() for name in names]
                known = zip(names, references, strict=True)
                problems.add(
                    connection, [Problem(name=n, reference=r, source_set="bench") for n, r in known]
                )
            opened = Site(services.settings, calls=flight, log=folder / "deaths", **options)
            try:
                opened.supervise()
                yield opened, client
            finally:
                opened.close()
    finally:
        shutil.rmtree(folder)


def patiently(client: Client, query: Any) -> list[Any]:
    """Rows, as soon as PostgreSQL is there."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            with client.database.begin() as connection:
                return list(connection.execute(query))
        except DatabaseUnavailableError:
            if time.monotonic() > until:
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
    while (
        patiently(client, sa.select(sa.func.count()).select_from(tables.endpoint_workers))[0][0]
        < count
    ):
        time.sleep(0.2)
    while not patiently(client, sa.select(sa.func.count()).select_from(tables.devices))[0][0]:
        time.sleep(0.2)


def rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")
