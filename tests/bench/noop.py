"""A no-op evaluation through the whole stack: client, queue, worker, referee, judge,
store, and back.

    python -m tests.bench.noop [--repeats 50]

The candidate adds one to eight numbers.  Prints JSON: milliseconds from `submit` to the result in
the client's hands, beside the referee's own time (the rest is queue and store).
"""

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from app import embedded
from app.client import Client
from app.settings import Settings

REFERENCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x): return x + 1
def get_inputs(): return [torch.randn(8)]
"""
CANDIDATE = (
    "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x): return x + 1\n"
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument(
        "--budget", type=float, default=0.05, help="timing budget of one evaluation, in seconds"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assay-bench-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o711)
        settings = replace(Settings.from_env(), state_dir=Path(folder) / "state")
        with embedded.Services(settings) as services:
            worker = embedded.start_worker(services.settings)
            try:
                totals, referee = _measure(
                    Client(services.settings), arguments.repeats, arguments.budget
                )
            finally:
                worker.terminate()
                worker.wait()
    ordered = sorted(totals)
    print(
        json.dumps(
            {
                "p50_ms": statistics.median(totals),
                "p95_ms": ordered[int(len(ordered) * 0.95)],
                "referee_p50_ms": statistics.median(referee),
                "share_of_stack": 1 - sum(referee) / sum(totals),
                "repeats": arguments.repeats,
                "timing_budget_s": arguments.budget,
            },
            indent=2,
        )
    )


def _measure(client: Client, repeats: int, budget_s: float) -> tuple[list[float], list[float]]:
    totals, referee = [], []
    for index in range(repeats + 3):
        began = time.perf_counter()
        job = client.submit(
            reference=REFERENCE,
            candidate=f"{CANDIDATE}# {index}\n",
            backend="torch",
            timing_budget_s=budget_s,
        )
        result = job.wait(timeout_s=120)
        elapsed = (time.perf_counter() - began) * 1000
        assert result["status"] == "passed", result["error"]
        if index >= 3:  # the first ones pay for imports
            totals.append(elapsed)
            timings = result["timings_ms"]
            assert isinstance(timings, dict)
            referee.append(timings["total"])
    return totals, referee


if __name__ == "__main__":
    main()
