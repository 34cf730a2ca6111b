"""Do two evaluations of one candidate agree in speedup within their stated confidence intervals?

    python -m tests.bench.repeat_agreement [--repeats 100] [--budget 1.0]

Each repeat evaluates the same candidate twice.  Two readings of "agree", both printed as JSON:
`overlap`: the two intervals overlap; `mutual`: each estimate lies in the other's interval."""

import argparse
import json
import math
import statistics
from pathlib import Path
from uuid import uuid4

from app.domain.evaluation import Timing
from app.domain.job import Job, JobOptions
from workers.worker.referee_client import RefereeClient

ZOO = Path(__file__).parents[1] / "zoo"
PAIRS = {
    "head_loop_attention": "head_loop_attention_torch.py",
    "leaky_integrator": "leaky_integrator_torch.py",
    "scaled_add": "scaled_add_torch.py",
    "one_hot_embedding": "one_hot_embedding_triton.py",
}
"""Problem → honest candidate: overhead-bound, loop-bound, memory-bound, an interpreted kernel."""


def _measure(
    device_referee: RefereeClient, problem: str, candidate: str, budget_s: float
) -> Timing:
    job = Job(
        job_id=uuid4(),
        reference=(ZOO / "problems" / f"{problem}.py").read_bytes(),
        candidate=(ZOO / "honest" / candidate).read_bytes(),
        backend="triton" if candidate.endswith("_triton.py") else "torch",
        options=JobOptions(timing_budget_s=budget_s),
    )
    timing = device_referee.run(job).evaluation.timing
    assert timing is not None
    return timing


def _summary(pairs: list[tuple[Timing, Timing]]) -> dict[str, float]:
    overlap = [max(a.ci_low, b.ci_low) <= min(a.ci_high, b.ci_high) for a, b in pairs]
    mutual = [
        a.ci_low <= b.speedup <= a.ci_high and b.ci_low <= a.speedup <= b.ci_high for a, b in pairs
    ]
    both = [timing for pair in pairs for timing in pair]
    logs = [math.log(timing.speedup) for timing in both]
    return {
        "pairs": len(pairs),
        "overlap": sum(overlap),
        "mutual": sum(mutual),
        "speedup": statistics.median(timing.speedup for timing in both),
        "half_width_percent": (
            50 * statistics.median((t.ci_high - t.ci_low) / t.speedup for t in both)
        ),
        "spread_percent": 100 * statistics.pstdev(logs),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument(
        "--budget", type=float, default=1.0, help="timing budget of one evaluation, in seconds"
    )
    arguments = parser.parse_args()
    found: dict[str, list[tuple[Timing, Timing]]] = {problem: [] for problem in PAIRS}
    with RefereeClient("cpu") as device_referee:
        for index in range(arguments.repeats):
            problem = list(PAIRS)[index % len(PAIRS)]
            first, second = (
                _measure(device_referee, problem, PAIRS[problem], arguments.budget)
                for _ in range(2)
            )
            found[problem].append((first, second))
    everything = [pair for pairs in found.values() for pair in pairs]
    report: dict[str, object] = {
        problem: _summary(pairs) for problem, pairs in found.items() if pairs
    }
    print(json.dumps({"all": _summary(everything), **report}, indent=2))


if __name__ == "__main__":
    main()
