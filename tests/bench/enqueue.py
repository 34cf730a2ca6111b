"""How fast one process enqueues: rows committed and messages in the broker, end to end.

    python -m tests.bench.enqueue [--jobs 5000] [--rounds 3]

Starts servers of its own on this machine and prints one line of JSON."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
import time

from app import broker
from app.client import Client, Submission
from app.embedded import Services
from app.settings import Settings
from tests.bench.state_folders import state_folder

REFERENCE = "import torch\n" + "# a reference of usual length\n" * 60
CANDIDATE = "import triton\n" + "# a candidate of usual length\n" * 120
"""3.6 kB each, different in their last line."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with (
        state_folder() as folder,
        Services(Settings(state_dir=folder)) as services,
        Client(services.settings) as client,
    ):
        client.submit(reference=REFERENCE, candidate="warm up")
        rates = [enqueue(client, arguments.jobs) for _ in range(arguments.rounds)]
        queued = broker.depth(client.broker, "cpu")
    assert queued == arguments.rounds * arguments.jobs + 1
    figures = {
        "bench": "enqueue",
        "jobs": arguments.jobs,
        "jobs_per_s": [round(rate) for rate in rates],
        "median_jobs_per_s": round(statistics.median(rates)),
        "load_before": os.getloadavg()[0],
        "cpus": os.cpu_count(),
    }
    print(json.dumps(figures))


def enqueue(client: Client, number: int) -> float:
    """Jobs a second for `number` different candidates."""
    submissions = [
        Submission(reference=REFERENCE, candidate=f"{CANDIDATE}\n# {secrets.token_hex(8)}")
        for _ in range(number)
    ]
    began = time.perf_counter()
    client.submit_many(submissions)
    return number / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
