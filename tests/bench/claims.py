"""Cost of a claim while many jobs wait: from a permission to a lease, one round after another.

    python -m tests.bench.claims [--queued 100000] [--runs 1 10 100] [--claims 200]

Starts servers of its own on this machine and prints one line of JSON for each number of runs."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
import time

from app import embedded, enqueue
from app.domain.device import DeviceId
from app.domain.job import Limits
from app.domain.problem import Problem
from app.domain.request import PRIORITIES, Request
from app.enqueue.requests import CHUNK
from app.settings import Settings
from app.store.postgres.database import Database
from app.store.queue import scheduling
from tests.bench.state_folders import state_folder

HERE = DeviceId(device_class="h200", node="here", index=0)
PROBLEM = Problem(
    name="bench", reference=b"import torch\n" + b"# a reference of usual length\n" * 60
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--queued", type=int, default=100_000)
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--claims", type=int, default=200)
    arguments = parser.parse_args()
    for runs in arguments.runs:
        with (
            state_folder() as folder,
            embedded.Services(Settings(state_dir=folder)) as services,
        ):
            assert services.settings.database_url is not None
            database = Database(services.settings.database_url)
            store(database, arguments.queued, runs)
            found = figures(claim(database, arguments.claims), arguments.queued, runs)
            print(json.dumps(found), flush=True)
            database.dispose()


def store(database: Database, number: int, runs: int) -> None:
    """Rows without messages, every run with all priorities."""
    for start in range(0, number, CHUNK):
        asked = [
            Request(
                problem=PROBLEM,
                candidate=secrets.token_bytes(2_000),
                device_class="h200",
                run=f"run-{each % runs}",
                priority=PRIORITIES[each // runs % len(PRIORITIES)],
            )
            for each in range(start, min(number, start + CHUNK))
        ]
        with database.begin() as connection:
            enqueue.store(connection, asked)


def claim(database: Database, number: int) -> list[float]:
    """Milliseconds of each claim, commit included."""
    took = []
    for _ in range(number):
        began = time.perf_counter()
        terms = scheduling.ClaimSettings(owner=secrets.token_hex(4), lease_s=60, limits=Limits())
        with database.begin() as connection:
            assert scheduling.claim(connection, HERE, "gpu.h200", terms).lease is not None
        took.append(1000 * (time.perf_counter() - began))
    return took


def figures(took: list[float], queued: int, runs: int) -> dict[str, object]:
    return {
        "bench": "claims",
        "queued": queued,
        "runs": runs,
        "p50_ms": round(statistics.median(took), 2),
        "p95_ms": round(statistics.quantiles(took, n=20)[-1], 2),
        "load_before": os.getloadavg()[0],
        "cpus": os.cpu_count(),
    }


if __name__ == "__main__":
    main()
