"""The HTTP API of one web process: its throughput, its latency, and the cost of
holding requests open.

    python -m tests.bench.api [--evaluations 1000000] [--submissions 3000] [--waiting 500]

Prints JSON, an object a line.  The load comes from this machine, too.  `overhead` is the time from
sending a submission to holding its result in one held request (POST /v1/reward), by a real worker
whose evaluation takes no time: all of it is the service's.
"""

import argparse
import http.client
import json
import os
import socket
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import local
from typing import Any

from app import embedded
from app.client import Client
from app.settings import Settings
from tests import generate
from tests.integration import fakes
from tests.processes import processor_s

CONNECTIONS = 32
REFERENCE = "import torch\n" + "# a reference of usual length\n" * 40
CANDIDATE = "import triton\n" + "# a candidate of usual length\n" * 80


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--evaluations", type=int, default=1_000_000, help="stored before the reads are timed"
    )
    parser.add_argument("--submissions", type=int, default=3_000)
    parser.add_argument("--batches", type=int, default=10, help="of 1,000")
    parser.add_argument("--waiting", type=int, default=500)
    parser.add_argument(
        "--only", nargs="*", help="submit, batch, waiting, overhead, read; by default all"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assay-bench-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o711)
        settings = replace(
            Settings.from_env({}), state_dir=Path(folder) / "state", max_queued=10_000_000
        )
        with (
            embedded.Services(settings) as services,
            _served(services.settings) as (port, pid),
            Client(services.settings) as client,
        ):
            stages = {
                "submit": lambda: _submit(port, arguments.submissions),
                "batch": lambda: _batch(port, arguments.batches),
                "waiting": lambda: _waiting(client, port, pid, arguments.waiting),
                "overhead": lambda: _overhead(services.settings, port),
                "read": lambda: _read(client, port, arguments.evaluations),
            }
            for name in arguments.only or stages:
                _empty(client)
                before_s = processor_s(pid)
                found = stages[name]()
                spent_s = processor_s(pid) - before_s
                spent = {"web_cpu_s": spent_s, "load_average": os.getloadavg()[0]}
                print(json.dumps({name: {**found, **spent}}), flush=True)


@contextmanager
def _served(settings: Settings) -> Iterator[tuple[int, int]]:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    web = embedded.start_web(settings, port=port)
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield port, web.pid
    finally:
        web.terminate()
        web.wait()


class Caller:
    """Keeps a connection per thread."""

    def __init__(self, port: int, timeout_s: float = 120.0) -> None:
        self._port = port
        self._timeout_s = timeout_s
        self._own = local()

    def __call__(self, method: str, path: str, body: object = None) -> tuple[float, Any]:
        """Milliseconds and the JSON of the answer."""
        if not hasattr(self._own, "connection"):
            self._own.connection = http.client.HTTPConnection(
                "127.0.0.1", self._port, timeout=self._timeout_s
            )
        data = None if body is None else json.dumps(body)
        began = time.perf_counter()
        self._own.connection.request(method, path, data, {"Content-Type": "application/json"})
        response = self._own.connection.getresponse()
        told = response.read()
        took_ms = (time.perf_counter() - began) * 1000
        assert response.status < 300, told[:300]
        return took_ms, json.loads(told)


def _submit(port: int, count: int) -> dict[str, float]:
    call = Caller(port)
    call("POST", "/v1/evaluations", _body("warm"))
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        began = time.perf_counter()
        took = list(
            pool.map(lambda number: call("POST", "/v1/evaluations", _body(number))[0], range(count))
        )
        took_s = time.perf_counter() - began
    return {
        "per_s": count / took_s,
        **_times(took),
        "submissions": count,
        "connections": CONNECTIONS,
    }


def _batch(port: int, batches: int) -> dict[str, float]:
    call = Caller(port)
    bodies = [
        {"items": [_body(f"{batch} {number}") for number in range(1_000)]}
        for batch in range(batches)
    ]
    began = time.perf_counter()
    took = [call("POST", "/v1/evaluations:batch", body)[0] for body in bodies]
    return {
        "per_s": 1_000 * batches / (time.perf_counter() - began),
        **_times(took),
        "batches": batches,
    }


def _waiting(client: Client, port: int, pid: int, count: int) -> dict[str, Any]:
    """`count` clients hold a request each; others ask meanwhile; then the job is
    over and all hear of it.
    """
    job = client.submit(reference=REFERENCE, candidate="waits", gpu="h200")
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    for each in sockets:
        each.sendall(
            f"GET /v1/evaluations/{job.job_id}?wait=60 HTTP/1.0\r\nHost: localhost\r\n\r\n".encode()
        )
    time.sleep(2)
    call = Caller(port)
    took = [call("GET", f"/v1/evaluations/{job.job_id}")[0] for _ in range(300)]
    held = dict(
        line.split(":\t")
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if ":\t" in line
    )
    began = time.perf_counter()
    job.cancel()
    for each in sockets:
        with each, each.makefile("rb") as answer:
            assert b"200" in answer.readline()
            answer.read()
    all_told_ms = (time.perf_counter() - began) * 1000
    return {
        "clients": count,
        "others": _times(took),
        "all_told_ms": all_told_ms,
        "threads": int(held["Threads"]),
        "resident_mb": int(held["VmRSS"].split()[0]) / 1024,
    }


def _overhead(settings: Settings, port: int) -> dict[str, float]:
    worker = embedded.start_worker(settings, module=fakes.WORKER)
    call = Caller(port)
    try:
        took = [
            call("POST", "/v1/reward", _body(f"wrong{' ' * number}", whole=True))[0]
            for number in range(110)
        ][10:]
    finally:
        worker.terminate()
        worker.wait()
    return {**_times(took), "evaluations": len(took)}


def _read(client: Client, port: int, evaluations: int) -> dict[str, float]:
    generate.fill(client.database, evaluations, seed=1)
    with client.database.begin() as connection:
        connection.exec_driver_sql("ANALYZE")
        sample = "SELECT job_id FROM evaluations ORDER BY md5(job_id::text) LIMIT 2000"
        job_ids = list(connection.exec_driver_sql(sample).scalars())
    call = Caller(port)
    for job_id in job_ids[:50]:
        call("GET", f"/v1/evaluations/{job_id}")
    took = [call("GET", f"/v1/evaluations/{job_id}")[0] for job_id in job_ids]
    with ThreadPoolExecutor(8) as pool:
        began = time.perf_counter()
        list(pool.map(lambda job_id: call("GET", f"/v1/evaluations/{job_id}"), job_ids))
        per_s = len(job_ids) / (time.perf_counter() - began)
    return {"stored": evaluations, **_times(took), "per_s": per_s, "reads": len(took)}


def _empty(client: Client) -> None:
    with client.database.begin() as connection:
        connection.exec_driver_sql("TRUNCATE jobs CASCADE")


def _body(name: object, *, whole: bool = False) -> dict[str, Any]:
    candidate = str(name) if whole else f"{CANDIDATE}# {name}\n"
    return {"reference": REFERENCE, "candidate": candidate, "backend": "torch"}


def _times(took_ms: list[float]) -> dict[str, float]:
    ordered = sorted(took_ms)
    return {
        "p50_ms": statistics.median(ordered),
        "p95_ms": ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))],
    }


if __name__ == "__main__":
    main()
