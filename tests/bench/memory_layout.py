"""Do a kernel's times depend on where its tensors lie?  Plain processes of one allocator
each, and problems of KernelBench.

    python -m tests.bench.memory_layout KERNELBENCH 2/77,1/61,2/61

Each process makes the problem's inputs and model again and again behind unused memory of random
size, and takes the mean of ten calls by CUDA events.  Prints a line for each problem and allocator:
microseconds a call.  `default` is PyTorch's own allocator, `shareable` the same over
workers/shims/device_malloc.c, as in the sandbox, and `expandable` PyTorch's expandable segments.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from app.domain import kernelbench
from tests.bench.sweep import pairs
from workers.referee.host import device_memory

PLACES = 8
"""Layouts a process."""

BODY = """
import gc, json, random, sys, types
import torch
problem = types.ModuleType("problem"); sys.modules["problem"] = problem
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), problem.__dict__)
random.seed(5)
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

def unused(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")

def mean_us(size):
    before = unused(size)
    torch.manual_seed(1)
    with torch.device("cuda"):
        inputs = [each.cuda() if hasattr(each, "cuda") else each for each in problem.get_inputs()]
        model = problem.Model(*problem.get_init_inputs()).cuda()
    after = unused(size)
    with torch.no_grad():
        for _ in range(3): model(*inputs)
        begin.record()
        for _ in range(10): model(*inputs)
        end.record()
    torch.cuda.synchronize()
    return round(begin.elapsed_time(end) * 100)

found = []
for _ in range(int(sys.argv[2])):
    found.append(mean_us((2 << 20) + 512 * random.randrange(1 << 15)))
    gc.collect()
    torch.cuda.empty_cache()
print(json.dumps(found))
"""


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, metavar="KERNELBENCH")
    parser.add_argument("problems", type=pairs, help="level/number,…")
    given = parser.parse_args()
    files = kernelbench.problem_files(given.directory)
    allocators = {
        "default": {},
        "shareable": device_memory.environment(),
        "expandable": device_memory.EXPANDABLE,
    }
    for level, number in given.problems:
        for name, settings in allocators.items():
            command = [sys.executable, "-c", BODY, str(files[level, number]), str(PLACES)]
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=os.environ | settings
            )
            taken = json.loads(done.stdout) if done.returncode == 0 else done.stderr[-300:]
            print(
                json.dumps({"problem": f"{level}/{number}", "allocator": name, "us": taken}),
                flush=True,
            )


if __name__ == "__main__":
    main()
