"""Random bytes into everything that a candidate shares with the referee, while it is
being evaluated.

    python -m tests.bench.fuzz_control [--seconds 60] [--seed 1]

Each candidate scribbles, from a thread and a forked process, over every shared mapping that it
finds in its own address space (mailbox, arena) and sends replies of its own: random bytes,
well-formed lies, lies with the right sequence number.  Some do the reference's work besides, so
that they get as far as timing and profile; the others return noise, and none of these may pass.
None may get a speedup from it, the referee may neither die nor be replaced, and every fourth
evaluation is an honest one, which must pass.  Prints JSON; exit code 1 if any of this is not so.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from typing import Any
from uuid import uuid4

from app.domain.evaluation import Evaluation, Status
from app.domain.job import Job, JobOptions
from workers.worker.referee_client import RefereeClient

REFERENCE = b"""
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width))
    def forward(self, x): return torch.cumsum(x * self.weight, dim=1)
def get_inputs(): return [torch.rand(16, 64)]
def get_init_inputs(): return [64]
"""
HONEST = REFERENCE.replace(b"class Model(", b"class ModelNew(")
HONEST_EVERY = 4
CREDIT = 3.0
"""A lower end of the speedup's interval that the reference's own work cannot reach,
however noisy the host.
"""

FUZZER = """
import ctypes, os, random, re, sys, threading, time
import torch
SEED, TARGETS, FORKS, PAUSE_S, WORKS = {seed}, {targets!r}, {forks}, {pause_s}, {works}
wire = sys.modules["workers.protocol.control_channel"]

def spans():
    with open("/proc/self/maps") as maps:
        for line in maps:
            found = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw-s .*memfd:(\\w*)", line)
            if found and ("all" in TARGETS or found[3] in TARGETS):
                yield int(found[1], 16), int(found[2], 16)

def conversation():
    for frame in sys._current_frames().values():
        while frame is not None:
            if "channel" in frame.f_locals and "sequence" in frame.f_locals:
                return frame.f_locals["channel"], frame.f_locals["sequence"]
            frame = frame.f_back
    return None, 0

def lie(dice, sequence):
    number = dice.choice([sequence, sequence + 1, dice.getrandbits(32)])
    kind = dice.choice([1, 1, dice.getrandbits(32)])
    well_formed = wire.REPLY.pack(kind, number, dice.getrandbits(64),
                                  dice.getrandbits(dice.choice([4, 14, 64])))
    return dice.choice([well_formed, well_formed, dice.randbytes(dice.randrange(1, 200))])

def scribble(seed):
    dice = random.Random(seed)
    found = []
    while True:
        found = found if found and dice.random() < 0.9 else list(spans())
        if found:
            first, last = dice.choice(found)
            length = min(dice.choice([1, 8, 64, 4096, 1 << 16]), last - first)
            at = first + dice.randrange(last - first - length + 1)
            if dice.random() < 0.3: at = first + (at - first) % min(last - first - length + 1, 4096)
            ctypes.memmove(at, dice.randbytes(length), length)
        if "channel" in TARGETS and dice.random() < 0.05:
            channel, sequence = conversation()
            if channel is not None:
                try: channel.send(lie(dice, sequence), 0x40)  # MSG_DONTWAIT
                except OSError: pass
        time.sleep(PAUSE_S)

class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(width))
        for number in range(FORKS):
            if os.fork() == 0: scribble(SEED + number + 1)
        threading.Thread(target=scribble, args=(SEED,), daemon=True).start()
    def forward(self, x):
        return torch.cumsum(x * self.weight, dim=1) if WORKS else torch.rand_like(x) * 1e3
"""
TARGETS = (("mailbox",), ("arena",), ("channel",), ("all",), ("all", "channel"))


def main() -> int:
    """Fuzz and print; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with RefereeClient("cpu") as device_referee:
        found = fuzz(device_referee, seconds=options.seconds, seed=options.seed)
    print(json.dumps(found, indent=2))
    return 1 if found["wrong"] or found["referees"] != 1 else 0


def fuzz(device_referee: RefereeClient, *, seconds: float, seed: int) -> dict[str, Any]:
    """Evaluate fuzzers and honest candidates in turn until the time is over, and
    count their outcomes.

    Raises InfrastructureError where the referee dies of it.
    """
    dice = random.Random(seed)
    statuses: dict[str, Counter[str]] = {"noise": Counter(), "work": Counter(), "honest": Counter()}
    wrong: list[str] = []
    device_referee.start()
    referees = {_referee(device_referee)}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        number = sum(map(Counter.total, statuses.values()))
        kind = "honest" if number % HONEST_EVERY == 0 else dice.choice(["noise", "work"])
        candidate, patience_s = (
            (HONEST, 30.0) if kind == "honest" else (_fuzzer(dice, works=kind == "work"), 2.0)
        )
        evaluation = _evaluate(device_referee, candidate, patience_s)
        referees.add(_referee(device_referee))
        statuses[kind][evaluation.status] += 1
        if not _acceptable(kind, evaluation):
            wrong.append(
                f"{number}, {kind}: {evaluation.status} {evaluation.error} {evaluation.timing}"
            )
    return {
        "seed": seed,
        "seconds": seconds,
        "statuses": {kind: dict(counts) for kind, counts in statuses.items()},
        "wrong": wrong,
        "referees": len(referees),
    }


def _acceptable(kind: str, evaluation: Evaluation) -> bool:
    passed = evaluation.status is Status.PASSED
    if kind == "honest":
        return passed
    credited = evaluation.timing is not None and evaluation.timing.ci_low > CREDIT
    return evaluation.valid and not credited and not (kind == "noise" and passed)


def _fuzzer(dice: random.Random, *, works: bool) -> bytes:
    chosen = {
        "seed": dice.getrandbits(32),
        "targets": dice.choice(TARGETS),
        "forks": dice.choice([0, 1]),
        "pause_s": dice.choice([0.0, 1e-5, 1e-3, 0.02]),
        "works": works,
    }
    return FUZZER.format(**chosen).encode()


def _evaluate(device_referee: RefereeClient, candidate: bytes, patience_s: float) -> Evaluation:
    options = JobOptions(call_timeout_s=patience_s, deadline_s=3 * patience_s, timing_budget_s=0.02)
    return device_referee.run(
        Job(
            job_id=uuid4(),
            reference=REFERENCE,
            candidate=candidate,
            backend="torch",
            options=options,
        )
    ).evaluation


def _referee(device_referee: RefereeClient) -> int:
    assert device_referee._process is not None
    return device_referee._process.pid


if __name__ == "__main__":
    sys.exit(main())
