"""Cores of the two sides of a benchmark, and their effect on calls which are mostly launching.

    python -m tests.bench.gpu_cores [--slots 8] [--count 12] [--rounds 2] [--out rows.json]

One honest kernel of some 30 µs and pairs of known ratio again and again, among others in flight,
with both sides' threads placed in turn:

    chosen     the first threads of both, which launch, on a quiet core that is fast before each
               block, as the referee does
    one_core   on the first quiet core
    free       on the quiet cores, wherever the kernel puts them
    own_cores  the first thread of each on a quiet core of its own

Needs a GPU; prints JSON: ratios and their spread, side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

from tests.bench.gpu_figures import ratio
from tests.bench.gpu_fleet import Fleet, small
from workers.referee.host.cpu_affinity import Cores
from workers.referee.host.launching_core import LaunchingCore

PLACES = ("chosen", "one_core", "free", "own_cores")


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Launch as `place` says meanwhile."""

    def launch_from(cores: Cores, core: int, pids: list[int]) -> None:
        for side, pid in enumerate(pids):
            with suppress(ProcessLookupError):
                own = sorted(cores.timed)[side]
                os.sched_setaffinity(pid, {"one_core": {core}, "own_cores": {own}}[place])

    if place == "chosen":
        yield
        return
    replaced = (lambda *_: None) if place == "free" else launch_from
    with (
        mock.patch.object(LaunchingCore, "choose"),
        mock.patch.object(Cores, "launch_from", replaced),
    ):
        yield


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device-class", default="h200")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument(
        "--count", type=int, default=12, help="evaluations of the kernel, a placement and round"
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, help="the raw rows, as JSON")
    arguments = parser.parse_args()
    fleet = Fleet(arguments.device_class, arguments.slots)
    fleet.end_on_signals()
    rows: dict[str, dict[str, list[dict[str, Any]]]] = {name: {} for name in PLACES}
    try:
        fleet.run(small(2 * arguments.slots))  # processes of the references
        for turn in range(arguments.rounds):
            for name in PLACES[:: 1 if turn % 2 == 0 else -1]:
                with placed(name):
                    for kind, timings in _evaluated(fleet, arguments.count).items():
                        rows[name].setdefault(kind, []).extend(timings)
                if arguments.out:
                    arguments.out.write_text(json.dumps(rows))
    finally:
        fleet.close()
    report = {
        name: {kind: _spread(found) for kind, found in kinds.items()}
        for name, kinds in rows.items()
    }
    print(json.dumps(report, indent=1))


def _evaluated(fleet: Fleet, count: int) -> dict[str, list[dict[str, Any]]]:
    """Timings of each kind, every second of those in flight."""
    others = small(count)
    kinds = {
        "30 µs, Triton": others[0],
        "20 µs, 1.00": ratio(1, 1, 20.0),
        "300 µs, 1.25": ratio(5, 4, 300.0),
    }
    timings = {}
    for name, kind in kinds.items():
        found, _ = fleet.run([each for other in others for each in (kind, other)])
        timings[name] = [row["timing"] for row in found if row["index"] % 2 == 0 and row["timing"]]
    return timings


def _spread(timings: list[dict[str, Any]]) -> dict[str, Any]:
    """Spread of the speedup, and of both sides' times, each over its median."""
    found: dict[str, Any] = {"n": len(timings)}
    for name in ("speedup", "reference_us", "candidate_us"):
        values = [each[name] for each in timings]
        middle = statistics.median(values) if values else None
        found[name] = {"median": middle}
        if middle and len(values) > 1:
            found[name] |= {
                "cv_percent": 100 * statistics.stdev(values) / statistics.fmean(values),
                "least": min(values) / middle,
                "most": max(values) / middle,
            }
    return found


if __name__ == "__main__":
    main()
