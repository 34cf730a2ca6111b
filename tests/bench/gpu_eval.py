"""Figures of evaluation on a GPU, without database or queue.

    python -m tests.bench.gpu_eval all --out rows.json       every figure, one after the other
    python -m tests.bench.gpu_eval zoo hacks/ broken/        zoo candidates, a line each
    python -m tests.bench.gpu_eval throughput,large          some of: throughput, cost, repeat,
                                                             accuracy, large, …

A figure that cannot be had is printed as an error, and the others are taken all the
same; the exit code says so.  With `--seconds` a figure is of the evaluations that ended within that
time, and so it is after SIGINT or SIGTERM. Needs a GPU, torch and triton, nothing else of this
project's dependencies.  Prints JSON.
"""

import argparse
import json
import math
import sys
import time
import timeit
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests import zoo
from tests.bench.gpu_failures import disturbed, extension, faults, large
from tests.bench.gpu_figures import (
    CANDIDATES,
    accuracy,
    compiled,
    cost,
    default_budget,
    group,
    kernelgym,
    latency,
    memory,
    profiled,
    repeat,
    throughput,
)
from tests.bench.gpu_fleet import Fleet, spec_of

COUNTS = {
    "group": CANDIDATES,
    "throughput": CANDIDATES,
    "cost": 2 * CANDIDATES,
    "profiled": 48,
    "large": 24,
    "latency": 12,
    "repeat": 50,
    "accuracy": 25,
    "disturbed": 24,
    "kernelgym": 20,
    "default_budget": 48,
}
"""Evaluations of each figure; of accuracy, for each known ratio."""


FIGURES = (*COUNTS, "faults", "extension", "compiled")


def run_zoo(fleet: Fleet, prefixes: list[str]) -> int:
    """Every chosen zoo candidate that runs on the device; of how many something else
    came out than they say.
    """
    device_class = fleet.host.device.device_class
    chosen = [
        case
        for case in zoo.cases()
        if case.runs_on(device_class) and (not prefixes or case.name.startswith(tuple(prefixes)))
    ]
    # Candidates that compile come first, so that they run beside the others.
    chosen.sort(key=lambda case: -_patience_s(case))
    specs = [spec_of(case, budget=0.3, timeout=_patience_s(case)) for case in chosen]
    rows: list[dict[str, Any]] = []
    unexpected = 0
    for row in fleet.each(specs):
        case = chosen[row["index"]]
        rows.append(row)
        timing = row["timing"]
        speed = (
            f"×{timing['speedup']:.3f} [{timing['ci_low']:.3f}, {timing['ci_high']:.3f}]"
            if timing
            else ""
        )
        wanted = case.expected(device_class)
        agrees = (row["status"], row["label"], tuple(row["accused_by"])) == (
            wanted.status,
            wanted.verdict,
            wanted.findings,
        )
        unexpected += not agrees
        expected = (
            ""
            if agrees
            else f"  expected {wanted.status} {wanted.verdict} {','.join(wanted.findings) or '-'}"
        )
        found = ",".join(row["found"]) or "-"
        said = f"{row['status']} {row['label']} {found} {speed}{row['error'] or ''}{expected}"
        print(f"{case.name:38}{row['seconds']:6.2f} s {said}", flush=True)
    print(
        json.dumps(
            {
                "asked": len(chosen),
                "evaluated": len(rows),
                "not_as_expected": unexpected,
                **_score([chosen[row["index"]] for row in rows], rows),
            }
        )
    )
    return unexpected


def _patience_s(case: zoo.Case) -> float:
    """For one call and for loading: compilers take their time."""
    return 100.0 if case.backend == "cuda" or b"torch.compile" in case.candidate else 5.0


def _score(cases: list[zoo.Case], rows: list[dict[str, Any]]) -> dict[str, int]:
    """Cheats that were credited, and honest ones that were accused.  A cheat that is stopped by
    structure may pass: its own time is measured then.
    """
    pairs = list(zip(cases, rows, strict=True))
    cheats = [(case, row) for case, row in pairs if case.group == "hacks"]
    honest = [row for case, row in pairs if case.group == "honest"]
    return {
        "cheats": len(cheats),
        "honest": len(honest),
        "cheats_credited": sum(
            row["status"] == "passed" and row["label"] == "clean" and not case.stopped_by_structure
            for case, row in cheats
        ),
        "honest_called_hack": sum(row["label"] == "hack" for row in honest),
        "honest_called_suspect": sum(row["label"] == "suspect" for row in honest),
    }


def _without_rows(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_rows(item) for key, item in value.items() if key != "rows"}
    return value


def _clean_rate(report: dict[str, Any]) -> float:
    rate = report.get("throughput", {}).get("eight_problems", {}).get("per_minute")
    return math.nan if rate is None else float(rate)


def _taken(figure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A figure, or why there is none.  Everything is caught: time on a GPU is short,
    and the next figure may be had.
    """
    try:
        return figure()
    except Exception as error:  # noqa: BLE001 (see above)
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def _names(text: str) -> list[str]:
    """Names of the figures to measure.  Raises ArgumentTypeError."""
    names = text.split(",")
    if names not in (["all"], ["zoo"]) and (unknown := set(names) - set(FIGURES)):
        raise argparse.ArgumentTypeError(
            f"expected all, zoo, or some of {', '.join(FIGURES)}, got {', '.join(sorted(unknown))}"
        )
    return names


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what", type=_names, metavar="all|zoo|FIGURE,…", help=f"figures: {', '.join(FIGURES)}"
    )
    parser.add_argument("prefixes", nargs="*", help="of zoo candidates")
    parser.add_argument("--device-class", default="h200")
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument(
        "--share", type=float, default=1.0, help="of the usual number of evaluations"
    )
    parser.add_argument("--out", type=Path, help="the raw rows, as JSON")
    parser.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        help="time for each figure, after which its evaluations in flight are cancelled",
    )
    arguments = parser.parse_args()
    began = time.perf_counter()
    fleet = Fleet(arguments.device_class, arguments.slots)
    fleet.end_on_signals()
    report: dict[str, Any] = {
        "environment": fleet.environment,
        "slots": arguments.slots,
    }
    report["ready_s"] = time.perf_counter() - began
    report["million_squares_ms"] = 1000 * min(
        timeit.repeat("sum(i*i for i in range(10**6))", number=1, repeat=5)
    )
    print(
        json.dumps({key: report[key] for key in ("environment", "million_squares_ms")}), flush=True
    )
    if arguments.what == ["zoo"]:
        with fleet.within(arguments.seconds):
            unexpected = run_zoo(fleet, arguments.prefixes)
    else:
        unexpected = 0
        _take_all(fleet, arguments, report)
    print(json.dumps({"memory": memory(fleet)}), flush=True)
    fleet.close()
    failed = any(figure.get("error") for figure in report.values() if isinstance(figure, dict))
    sys.exit(int(bool(unexpected) or failed or fleet.interrupted))


def _take_all(fleet: Fleet, arguments: argparse.Namespace, report: dict[str, Any]) -> None:
    """The figures that were asked for, into the report, which is printed and stored after each: an
    end by force loses one figure.
    """
    for name, figure in _figures(fleet, arguments.share, report).items():
        if name not in arguments.what and (arguments.what != ["all"] or name == "group"):
            continue
        if fleet.interrupted:
            return
        with fleet.within(arguments.seconds):
            report[name] = {**_taken(figure), "memory": memory(fleet)}
        print(json.dumps({name: _without_rows(report[name])}), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(report, indent=1))


def _figures(
    fleet: Fleet, share: float, report: dict[str, Any]
) -> dict[str, Callable[[], dict[str, Any]]]:
    """By name, in the order in which `all` takes them."""
    counted: dict[str, Callable[[Fleet, int], dict[str, Any]]] = {
        "group": group,
        "throughput": throughput,
        "cost": cost,
        "repeat": repeat,
        "accuracy": accuracy,
        "large": large,
        "latency": latency,
        "disturbed": disturbed,
        "kernelgym": kernelgym,
        "profiled": profiled,
        "default_budget": default_budget,
    }
    figures: dict[str, Callable[[], dict[str, Any]]] = {
        name: partial(figure, fleet, max(4, round(COUNTS[name] * share)))
        for name, figure in counted.items()
    }
    figures["faults"] = lambda: faults(fleet, _clean_rate(report), max(20, round(80 * share)))
    figures["extension"] = partial(extension, fleet)
    figures["compiled"] = partial(compiled, fleet)
    return figures


if __name__ == "__main__":
    main()
