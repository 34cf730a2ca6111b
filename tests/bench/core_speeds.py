"""How fast each core of this host is, time and again, and whether cores are slow at the same times.

    python -m tests.bench.core_speeds [--seconds 4]

One thread goes from core to core and times a loop of a millisecond on each.  Prints JSON: for each
core the loop's deciles, in microseconds, and its correlation with itself one round later; the mean
correlation of two cores in the same round; and the share of rounds in which one core is slow, and
in which all of `quiet` cores are (cpu_affinity.py), by more than `SLOW` times the fastest decile of
all loops.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import time

from workers.referee.host.cpu_affinity import TIMED
from workers.referee.host.launching_core import SLOW

LOOPS, SETTLING = 20_000, 3_000
"""Iterations of a timed loop, and of the one before it, which warms the core's caches."""


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0)
    seconds = parser.parse_args().seconds
    cores = sorted(os.sched_getaffinity(0))
    rounds = measured(cores, seconds)
    by_core = dict(zip(cores, zip(*rounds, strict=True), strict=True))
    fast_us = deciles(list(itertools.chain(*rounds)))[0]
    slow = [[each > SLOW * fast_us for each in row] for row in rounds]
    print(
        json.dumps(
            {
                "rounds": len(rounds),
                "cores": {
                    core: {
                        "us": [round(deciles(row)[at]) for at in (0, 4, 8)],
                        "next_round": correlation(row[:-1], row[1:]),
                    }
                    for core, row in by_core.items()
                },
                "two_cores": statistics.fmean(
                    correlation(one, other)
                    for one, other in itertools.combinations(by_core.values(), 2)
                )
                if len(cores) > 1
                else None,
                "slow": statistics.fmean(itertools.chain(*slow)),
                "quiet": TIMED,
                "all_quiet_slow": statistics.fmean(all(row[-TIMED:]) for row in slow),
            }
        )
    )


def measured(cores: list[int], seconds: float) -> list[list[float]]:
    """Microseconds of the loop on each core, round by round."""
    rounds = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        row = []
        for core in cores:
            os.sched_setaffinity(0, {core})
            loop_us(SETTLING)
            row.append(loop_us(LOOPS))
        rounds.append(row)
    return rounds


def loop_us(iterations: int) -> float:
    """Microseconds of a loop."""
    began, total = time.perf_counter(), 0
    for number in range(iterations):
        total += number * number
    return 1e6 * (time.perf_counter() - began)


def deciles(values: list[float] | tuple[float, ...]) -> list[float]:
    """The nine numbers between tenths of the values."""
    return statistics.quantiles(values, n=10)


def correlation(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Pearson's; 0 if either does not vary."""
    if min(map(statistics.pstdev, (one, other))) == 0:
        return 0.0
    return statistics.correlation(one, other)


if __name__ == "__main__":
    main()
