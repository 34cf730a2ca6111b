"""Cost of processes and their layers: fork to ready, the layers alone, and the part
that an evaluation waits for.

    python -m tests.bench.process_costs [--repeats 30]

Ready means: forked, confined in every layer, pid reported.  `layers_ms` is what confining
takes in a process that has imported nothing; `waited_ms` is the stage `spawn` of evaluations
that follow each other at once; `filter_ns` is what the filter adds to one system call.  Prints
JSON; milliseconds are medians.
"""

import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import time
from uuid import uuid4

from app.domain.job import Job, JobOptions
from workers.referee.host.device import open_device
from workers.sandbox import layers, seccomp, syscalls
from workers.sandbox.zygote_client import Zygote
from workers.worker.referee_client import RefereeClient

SOURCE = b"""
import torch
class Model(torch.nn.Module):
    def forward(self, x): return x + 1
def get_inputs(): return [torch.rand(8)]
"""
CALLS = 200_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=30)
    repeats = parser.parse_args().repeats
    ready, active, missing = _fork_to_ready(repeats)
    cold = statistics.median(_cold_start() for _ in range(3))
    confined = _in_fork(lambda: _confine(repeats))
    print(
        json.dumps(
            {
                "fork_to_ready_ms": statistics.median(ready),
                "p95_ms": sorted(ready)[int(len(ready) * 0.95)],
                "cold_start_ms": cold,
                "ratio": cold / statistics.median(ready),
                "layers_ms": confined,
                "waited_ms": _waited(repeats),
                "filter_ns": _in_fork(_filtered) - _in_fork(_call_ns),
                "repeats": repeats,
                "layers": active,
                "missing": missing,
            },
            indent=2,
        )
    )


def _fork_to_ready(repeats: int) -> tuple[list[float], list[str], list[str]]:
    role, ready = "workers.shims.candidate", []
    with Zygote((role,), open_device("cpu", 0, 1).environment) as zygote:
        zygote.wait_ready()
        for _ in range(repeats):
            began = time.perf_counter()
            with zygote.spawn(role, memory_bytes=4 << 30, cpu_s=60) as process:
                process.wait_ready()
                ready.append((time.perf_counter() - began) * 1000)
    return ready, process.active, process.missing


def _cold_start() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch, triton"], check=True)
    return (time.perf_counter() - began) * 1000


def _in_fork(measure: object) -> float:
    """Result of `measure` in a process of its own, which ends afterwards."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, struct.pack("<d", measure()))  # type: ignore[operator]
        os._exit(0)
    os.close(writing)
    (value,) = struct.unpack("<d", os.read(reading, 8))
    os.close(reading)
    os.waitpid(pid, 0)
    return float(value)


def _confine(repeats: int) -> float:
    """Milliseconds from an unconfined fork to all layers."""
    active = layers.Layers()
    layers.confine_zygote(active)
    return statistics.median(_in_fork(lambda: _confine_once(active)) for _ in range(repeats))


def _confine_once(active: layers.Layers) -> float:
    began = time.perf_counter()
    layers.enter_process_namespace(active)
    scratch = layers.make_scratch(active)

    def confine() -> float:
        limits = layers.Limits(memory_bytes=4 << 30, data_bytes=4 << 30, cpu_s=60)
        layers.confine_candidate(active, limits, layers.FIRST_UID, scratch)
        return (time.perf_counter() - began) * 1000

    return _in_fork(confine)


def _waited(repeats: int) -> float:
    options = JobOptions(timing_budget_s=0)
    candidate = SOURCE.replace(b"class Model(", b"class ModelNew(")
    job = Job(
        job_id=uuid4(), reference=SOURCE, candidate=candidate, backend="torch", options=options
    )
    with RefereeClient("cpu") as device_referee:
        return statistics.median(
            device_referee.run(job).evaluation.stage_ms["spawn"] for _ in range(repeats)
        )


def _call_ns() -> float:
    """Nanoseconds of a system call that does next to nothing."""
    began = time.perf_counter_ns()
    for _ in range(CALLS):
        os.getppid()
    return (time.perf_counter_ns() - began) / CALLS


def _filtered() -> float:
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.install(seccomp.program(os.uname().machine))
    return _call_ns()


if __name__ == "__main__":
    main()
