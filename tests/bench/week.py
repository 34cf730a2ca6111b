"""A week in ten minutes: many evaluations that measure nothing through worker, web and sweep,
whose footprint has to stay flat.

    python -m tests.bench.week [--evaluations 20000] [--slots 2]

The worker is a real one with a referee that pretends
(tests/integration/fake_worker.py).  Submissions go in turn through Python and over
HTTP, results are read over HTTP.  Prints a sample a line and at the end one line of
JSON; ends with 1 where a figure of FLAT grew or a job is missing.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from app import broker, embedded
from app.client import Client, Submission
from app.embedded import Services
from app.settings import Settings
from tests.bench import footprint
from tests.bench.footprint import Allowance
from tests.bench.state_folders import state_folder
from tests.integration import fakes
from tests.processes import descendants

SAMPLES = 40
CHUNK = 100
PATIENCE_S = 120.0
"""Longest time without a job coming to its end."""

FLAT = {
    "worker_bytes": Allowance(share=0.1, least=16 << 20),
    "worker_descriptors": Allowance(least=6),
    "web_bytes": Allowance(share=0.15, least=32 << 20),
    "web_descriptors": Allowance(least=10),
    "connections": Allowance(least=4),
    "valkey_bytes": Allowance(share=0.2, least=1 << 20),
    "valkey_clients": Allowance(least=4),
    "valkey_keys": Allowance(least=3),
    "postgres_temp_bytes": Allowance(),
}


class Site:
    """Servers, web and worker of this bench."""

    def __init__(self, settings: Settings, client: Client) -> None:
        self.client = client
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = int(taken.getsockname()[1])
        self.web = embedded.start_web(settings, port=self.port)
        self.worker = embedded.start_worker(settings, module=fakes.WORKER)

    def close(self) -> None:
        for process in (self.worker, self.web):
            process.terminate()
            process.wait()

    def wait(self) -> None:
        """Until the web answers."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=5).close()
                return
            except OSError:
                assert time.monotonic() < deadline, "the web does not answer"
                time.sleep(0.2)

    def sample(self, evaluations: int) -> dict[str, float]:
        """Every figure now."""
        worker, web = ([each.pid, *descendants(each.pid)] for each in (self.worker, self.web))
        redis = broker.describe(self.client.broker)
        with self.client.database.begin() as connection:
            row = connection.execute(
                sa.text(
                    "SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname ="
                    " current_database()) AS connections, temp_bytes FROM pg_stat_database WHERE"
                    " datname = current_database()"
                )
            ).one()
        return {
            "evaluations": evaluations,
            "worker_bytes": footprint.resident_bytes(worker),
            "worker_descriptors": footprint.descriptors(worker),
            "web_bytes": footprint.resident_bytes(web),
            "web_descriptors": footprint.descriptors(web),
            "connections": row.connections,
            "valkey_bytes": redis["used_memory"],
            "valkey_clients": redis["connected_clients"],
            "valkey_keys": redis.get("db0", {}).get("keys", 0),
            "postgres_temp_bytes": row.temp_bytes,
        }


def submissions(first: int, count: int) -> list[Submission]:
    numbers = range(first, first + count)
    return [
        Submission(reference="fake", candidate=f"wrong\nslow {number / 1e9:.9f}", backend="torch")
        for number in numbers
    ]


def submit(site: Site, first: int, count: int, *, over_http: bool) -> list[str]:
    """Ids of the jobs."""
    asked = submissions(first, count)
    if not over_http:
        return [str(handle.job_id) for handle in site.client.submit_many(asked)]
    items = [
        {"reference": one.reference, "candidate": one.candidate, "backend": one.backend}
        for one in asked
    ]
    answer = call(site, "POST", "/v1/evaluations:batch", {"items": items})
    return [item["accepted"]["job_id"] for item in answer["items"]]


def call(site: Site, method: str, path: str, body: object) -> Any:
    """JSON of the answer, through a connection of its own, as short-lived clients do."""
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=120)
    try:
        connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        told = response.read()
    finally:
        connection.close()
    assert response.status < 300, told[:300]
    return json.loads(told)


def finished(site: Site, job_ids: list[str]) -> None:
    """Wait until all are over, by asking over HTTP."""
    left, deadline = set(job_ids), time.monotonic() + PATIENCE_S
    while left:
        results = call(site, "POST", "/v1/evaluations:results", {"job_ids": sorted(left)})[
            "results"
        ]
        over = {each["job_id"] for each in results if each["state"] == "finished"}
        if over:
            left -= over
            deadline = time.monotonic() + PATIENCE_S
        assert time.monotonic() < deadline, f"{len(left)} jobs do not end"
        time.sleep(0.02)


def week(evaluations: int, slots: int, folder: Path) -> dict[str, Any]:
    """Run and look now and then."""
    samples: list[dict[str, float]] = []
    began = time.monotonic()
    settings = Settings(state_dir=folder, slots=slots)
    with Services(settings) as services, Client(services.settings) as client:
        site = Site(services.settings, client)
        try:
            site.wait()
            for chunk, first in enumerate(range(0, evaluations, CHUNK)):
                count = min(CHUNK, evaluations - first)
                finished(site, submit(site, first, count, over_http=bool(chunk % 2)))
                if (first // CHUNK) % max(1, evaluations // CHUNK // SAMPLES) == 0:
                    samples.append(site.sample(first + count))
                    print(json.dumps(samples[-1]), file=sys.stderr, flush=True)
        finally:
            site.close()
    return {
        "bench": "week",
        "evaluations": evaluations,
        "slots": slots,
        "seconds": round(time.monotonic() - began, 1),
        **footprint.report(samples, FLAT),
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--evaluations", type=int, default=20_000)
    parser.add_argument("--slots", type=int, default=2)
    given = parser.parse_args()
    with state_folder() as folder:
        report = week(given.evaluations, given.slots, folder)
    print(json.dumps(report))
    sys.exit(1 if report["grown"] else 0)


if __name__ == "__main__":
    main()
