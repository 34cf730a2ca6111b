"""Do processes that run the same code take the same time?  Problems of KernelBench
against themselves, again and again.

    python -m tests.bench.same_code KERNELBENCH 2/77,1/61 --device h200 --slots 8 --count 8

Prints a line an evaluation: the times of both sides, the speedup, and the candidate's kernels with
their times by the driver.  `plain` lines come first: fresh processes without Assay, the same
inputs, CUDA events around twenty calls after three, and the kernels' names.  Where kernels differ
between lines, libraries have chosen otherwise.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from app.domain import kernelbench, problem_check
from app.domain.job import REWARD_BUDGET_S
from tests.bench.sweep import pairs

PLAIN = """
import json, sys, types
import torch
module = types.ModuleType("problem"); sys.modules["problem"] = module
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), module.__dict__)
torch.manual_seed(1)
with torch.device("cuda"):
    inputs = [each.cuda() if hasattr(each, "cuda") else each for each in module.get_inputs()]
model = module.Model(*module.get_init_inputs()).cuda()
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
with torch.no_grad():
    for _ in range(3): model(*inputs)
    begin.record()
    for _ in range(20): model(*inputs)
    end.record()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        model(*inputs); torch.cuda.synchronize()
times = {each.key[:110]: round(each.device_time_total) for each in profiler.key_averages()}
most = sorted(times.items(), key=lambda one: -one[1])[:5]
print(json.dumps({"us": begin.elapsed_time(end) * 50, "kernels": most}))
"""


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, metavar="KERNELBENCH")
    parser.add_argument("problems", type=pairs, help="level/number,…")
    parser.add_argument("--device", default="h200", help="device class")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--count", type=int, default=8, help="evaluations of each problem")
    parser.add_argument(
        "--plain", type=int, default=3, help="processes without Assay for each problem"
    )
    parser.add_argument(
        "--budget", type=float, default=REWARD_BUDGET_S, help="for timing, in seconds"
    )
    given = parser.parse_args()
    files = kernelbench.problem_files(given.directory)
    for key in given.problems:
        for _ in range(given.plain):
            command = [sys.executable, "-c", PLAIN, str(files[key])]
            print(
                key,
                "plain",
                subprocess.run(command, capture_output=True, text=True, check=False).stdout,
                flush=True,
            )
    from tests.bench.gpu_fleet import Fleet

    fleet = Fleet(given.device, given.slots)
    fleet.end_on_signals()
    for key in given.problems:
        problem = kernelbench.problem(files[key], key[0])
        candidate = problem_check.identity(problem.reference, problem.entry_point).decode()
        specs = [
            {
                "name": f"{key} {index}",
                "reference": problem.reference.decode(),
                "candidate": candidate,
                "backend": problem_check.BACKEND,
                "budget": given.budget,
                "profile": "full",
                "timeout": 60.0,
            }
            for index in range(given.count)
        ]
        for row in fleet.each(specs):
            timing = row["timing"] or {}
            kernels = [
                (kernel["name"][:110], round(kernel["total_us"])) for kernel in row["kernels"][:5]
            ]
            figures = [
                timing.get(name)
                for name in ("reference_us", "candidate_us", "speedup", "ci_low", "ci_high")
            ]
            print(
                json.dumps([row["name"], row["status"], row["error"], figures, kernels]), flush=True
            )
    fleet.close()


if __name__ == "__main__":
    main()
