"""Many different problems through one referee: descriptors, processes and memory have to stay flat.

    python -m tests.bench.soak [--problems 2000] [--device cpu]

Each problem is evaluated once, with a right candidate and the shortest timing.  Prints a
sample a line and at the end one line of JSON; ends with 1 where a footprint grew or an
evaluation did not pass.  Needs no database.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any
from uuid import uuid4

from app.domain.evaluation import Status
from app.domain.job import Job, JobOptions
from tests.bench import footprint
from tests.bench.footprint import Allowance
from tests.processes import descendants
from workers.worker import referee_client

SAMPLES = 40
FLAT = {
    "descriptors": Allowance(least=30),
    "processes": Allowance(least=6),
    "resident_bytes": Allowance(share=0.1, least=64 << 20),
}
"""A reference that is kept for its problem to come again is some ten descriptors and
40 MB; their number is bounded.
"""

REFERENCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x): return torch.relu(x) + {number}
def get_inputs(): return [torch.randn({rows}, 64)]
"""


def job(number: int, device_class: str) -> Job:
    """One of as many different problems as there are numbers."""
    reference = REFERENCE.format(number=number, rows=16 + number % 64)
    options = JobOptions(timing_budget_s=0.02, deadline_s=60)
    return Job(
        job_id=uuid4(),
        reference=reference.encode(),
        candidate=reference.replace("class Model(", "class ModelNew(").encode(),
        backend="torch",
        device_class=device_class,
        options=options,
    )


def sample(pid: int, problems: int) -> dict[str, float]:
    """Footprint of the referee and all below it."""
    pids = [pid, *descendants(pid)]
    return {
        "problems": problems,
        "descriptors": footprint.descriptors(pids[:1]),
        "processes": len(pids),
        "resident_bytes": footprint.resident_bytes(pids),
    }


def soak(problems: int, device_class: str) -> dict[str, Any]:
    """Evaluate, and look now and then."""
    samples: list[dict[str, float]] = []
    failed: list[str] = []
    began = time.monotonic()
    with referee_client.RefereeClient(device_class) as device_referee:
        device_referee.start()
        assert device_referee._referee_pid is not None
        for number in range(1, problems + 1):
            evaluation = device_referee.run(job(number, device_class)).evaluation
            if evaluation.status is not Status.PASSED:
                failed.append(f"{number}: {evaluation.status}: {evaluation.error}")
            if number % max(1, problems // SAMPLES) == 0:
                samples.append(sample(device_referee._referee_pid, number))
                print(json.dumps(samples[-1]), file=sys.stderr, flush=True)
    return {
        "bench": "soak",
        "device_class": device_class,
        "problems": problems,
        "seconds": round(time.monotonic() - began, 1),
        "not_passed": failed,
        **footprint.report(samples, FLAT),
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--problems", type=int, default=2000)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    report = soak(given.problems, given.device)
    print(json.dumps(report))
    sys.exit(1 if report["grown"] or report["not_passed"] else 0)


if __name__ == "__main__":
    main()
