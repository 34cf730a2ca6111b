"""Figures of evaluations on a GPU: rates, latency, spread, accuracy, faults, large
tensors, baselines, memory.
"""

import statistics
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import Any
from unittest.mock import patch

import torch

from app.domain.job import BASELINES, Job, JobOptions
from tests import zoo
from tests.bench.gpu_fleet import Fleet, job, small, spec_of
from workers.referee import candidate_stages
from workers.referee.cancellation import Cancellation
from workers.referee.measure import measure
from workers.referee.timing import compiled_baselines

CANDIDATES = 96


PAIR_BUDGET_S = 0.3
"""The same for pairs of which the precision is the figure; others have the usual budget."""


SPIN = """
import torch
from torch import nn
class {name}(nn.Module):
    def forward(self, x):
        for _ in range({launches}):
            torch.cuda._sleep({cycles})
            y = x.neg()
        return y
"""


INPUTS = "def get_inputs(): return [torch.randn(256, 1024)]\ndef get_init_inputs(): return []\n"


MHZ = 1980
"""Clock of an H200's multiprocessors under a light load."""


def ratio(launches: int, candidate_launches: int, candidate_us: float) -> dict[str, Any]:
    """A pair of known ratio: the same step, which spins for some cycles and computes the answer,
    taken more and less often.  Nothing of a call is outside of its steps, so that their numbers are
    the ratio, as long as a step takes the device longer than it takes the host to launch.
    """
    cycles = round(candidate_us * MHZ / candidate_launches)
    reference = SPIN.format(name="Model", launches=launches, cycles=cycles) + INPUTS
    candidate = SPIN.format(name="ModelNew", launches=candidate_launches, cycles=cycles)
    return {
        "name": f"{launches}:{candidate_launches} × {candidate_us:g} µs",
        "reference": reference,
        "candidate": candidate,
        "backend": "torch",
        "budget": PAIR_BUDGET_S,
    }


# Figures
# --------------------------------------------------------------------------------------------------
def throughput(fleet: Fleet, count: int) -> dict[str, Any]:
    """Evaluations a minute, a fresh sandboxed process each, with correctness, paired
    timing, coverage and verdict: all of one problem, as a trainer's group of samples;
    and of eight problems in turn.
    """
    slots = fleet.slots
    one = [
        {**spec, "name": f"{spec['name']} {index}"}
        for index, spec in enumerate(small(8 * count)[::8])
    ]
    fleet.run(small(2 * slots))  # processes of the references
    return {"one_problem": _rate(fleet, one), "eight_problems": _rate(fleet, small(count))}


@contextmanager
def _without_checks() -> Iterator[None]:
    """Evaluations without ablation, perturbed weights and the driver's profile."""
    with ExitStack() as patched:
        patched.enter_context(patch.object(candidate_stages, "_ablate", lambda *_: None))
        patched.enter_context(patch.object(candidate_stages, "_perturb_weights", lambda *_: None))
        patched.enter_context(patch.object(Job, "wants_profiler", False))
        yield


def cost(fleet: Fleet, count: int) -> dict[str, Any]:
    """Evaluations a minute with all checks against those without unusual inputs, ablation,
    perturbed weights and the driver's profile, in turns: four rounds of each in one run, and the
    share of the rate that the checks cost.
    """
    slots, rounds = fleet.slots, 4
    each = max(slots, count // (2 * rounds))
    fleet.run(small(2 * slots))  # processes of the references
    rates: dict[str, list[dict[str, Any]]] = {"with_checks": [], "without_checks": []}
    for index in range(2 * rounds):
        specs = [{**spec, "name": f"{spec['name']} {index}"} for spec in small(each)]
        if index % 4 in (0, 3):  # with, without, without, with: a drift of the host cancels
            rates["with_checks"].append(_rate(fleet, specs))
            continue
        with _without_checks():
            rates["without_checks"].append(
                _rate(fleet, [{**spec, "variants": False} for spec in specs])
            )
    taken = {name: sum(rate["seconds"] for rate in found) for name, found in rates.items()}
    return {
        "cost_percent": 100 * (1 - taken["without_checks"] / taken["with_checks"]),
        "rounds_per_minute": {
            name: [rate["per_minute"] for rate in found] for name, found in rates.items()
        },
        **{
            name: {
                "accepted": sum(rate["accepted"] for rate in found),
                "stage_p50_ms": found[-1]["stage_p50_ms"],
            }
            for name, found in rates.items()
        },
    }


def group(fleet: Fleet, count: int) -> dict[str, Any]:
    """Evaluations a minute of one problem alone."""
    specs = [
        {**spec, "name": f"{spec['name']} {index}"}
        for index, spec in enumerate(small(8 * count)[::8])
    ]
    fleet.run(specs[: 2 * fleet.slots])
    return _rate(fleet, specs)


def _rate(fleet: Fleet, specs: list[dict[str, Any]]) -> dict[str, Any]:
    spent_s = time.process_time()
    rows, seconds = fleet.run(specs)
    spent_s = time.process_time() - spent_s
    passed = [row for row in rows if row["status"] == "passed" and row["label"] == "clean"]
    return {
        "per_minute": 60 * len(rows) / seconds if rows else None,
        "steady_per_minute": _steady_rate(rows, fleet.slots),
        "evaluations": len(rows),
        "asked": len(specs),
        "seconds": seconds,
        "accepted": len(passed),
        "p50_s": _median(row["seconds"] for row in rows),
        "referee_processor_ms": 1000 * spent_s / max(1, len(rows)),
        "stage_p50_ms": _stages(rows),
        "groups_p50": _median(row["timing"]["groups"] for row in passed),
        "half_width_percent": _half_width([row["timing"] for row in passed]),
        "refused": [
            (row["name"], row["status"], row["label"], row["error"])
            for row in rows
            if row not in passed
        ],
        "rows": rows,
    }


def _steady_rate(rows: list[dict[str, Any]], slots: int) -> float | None:
    """Evaluations a minute after the first of each slot have ended: all begin at once, and none
    ends for as long as one takes.
    """
    ends = sorted(row["ended_s"] for row in rows)
    if len(ends) <= 2 * slots:
        return None
    return 60 * (len(ends) - slots) / (ends[-1] - ends[slots - 1])


def _stages(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Median of each stage, over the evaluations that had it."""
    stages: dict[str, list[float]] = {}
    for row in rows:
        for stage, milliseconds in row["stage_ms"].items():
            stages.setdefault(stage, []).append(milliseconds)
    return {stage: round(statistics.median(values), 1) for stage, values in stages.items()}


def _median(values: Iterable[float]) -> float | None:
    """None of none: a figure says how many it is of."""
    known = list(values)
    return statistics.median(known) if known else None


def _half_width(timings: list[dict[str, Any]]) -> float | None:
    """Half-width of the stated interval, in percent of the speedup."""
    widths = [(timing["ci_high"] - timing["ci_low"]) / timing["speedup"] for timing in timings]
    return 50 * statistics.median(widths) if widths else None


def profiled(fleet: Fleet, count: int) -> dict[str, Any]:
    """Evaluations a minute with the driver's profiler for each that passes: every
    kernel, and a timeline.
    """
    specs = [{**spec, "profile": "full"} for spec in small(count)]
    fleet.run(specs[: fleet.slots])
    found = _rate(fleet, specs)
    sources = [row["profile"] for row in found["rows"]]
    errors = {row["profiler_error"] for row in found["rows"]} - {None}
    return {**found, "with_timeline": sources.count("profiler"), "errors": sorted(errors)}


def default_budget(fleet: Fleet, count: int) -> dict[str, Any]:
    """Evaluations a minute with the timing budget of a job that names none."""
    specs = [{**spec, "budget": JobOptions().timing_budget_s} for spec in small(count)]
    fleet.run(specs[: fleet.slots])
    return _rate(fleet, specs)


def latency(fleet: Fleet, count: int) -> dict[str, Any]:
    """A lone warm request, profile included: its problem's process is there, and a
    spare is ready.
    """
    specs, rows = small(count), []
    fleet.run(specs)
    for spec in specs:
        time.sleep(1.0)
        rows += fleet.run([spec])[0]
    seconds = [row["seconds"] for row in rows]
    return {
        "p50_s": _median(seconds),
        "max_s": max(seconds, default=None),
        "requests": len(rows),
        "stage_p50_ms": _stages(rows),
        "rows": rows,
    }


def repeat(fleet: Fleet, count: int) -> dict[str, Any]:
    """One pair again and again, among others in flight: spread of its speedup."""
    found = {}
    for name, candidate_us in (("300 µs", 300.0), ("60 µs", 60.0), ("20 µs", 20.0)):
        pair = ratio(5, 4, candidate_us) if candidate_us > 100 else ratio(1, 1, candidate_us)
        specs = [each for other in small(count) for each in (pair, other)]
        rows_, _ = fleet.run(specs)
        timings = [row["timing"] for row in rows_ if row["index"] % 2 == 0 and row["timing"]]
        speedups = [timing["speedup"] for timing in timings]
        spread = (
            statistics.stdev(speedups) / statistics.fmean(speedups) if len(speedups) > 1 else None
        )
        found[name] = {
            "n": len(speedups),
            "candidate_us": _median(timing["candidate_us"] for timing in timings),
            "mean": statistics.fmean(speedups) if speedups else None,
            "cv_percent": None if spread is None else 100 * spread,
            "half_width_percent": _half_width(timings),
            "groups": _median(timing["groups"] for timing in timings),
            "rows": timings,
        }
    return found


def accuracy(fleet: Fleet, count: int) -> dict[str, Any]:
    """Pairs of known ratio: how often the stated interval holds it."""
    pairs = {1.0: 20, 1.05: 21, 1.25: 25, 0.5: 10}
    specs = [
        (truth, ratio(launches, 20, 800.0))
        for truth, launches in pairs.items()
        for _ in range(count)
    ]
    rows, _ = fleet.run([spec for _, spec in specs])
    found: dict[str, Any] = {}
    for truth in pairs:
        timings = [
            row["timing"] for row in rows if specs[row["index"]][0] == truth and row["timing"]
        ]
        inside = [timing["ci_low"] <= truth <= timing["ci_high"] for timing in timings]
        found[str(truth)] = {
            "rows": timings,
            "n": len(timings),
            "inside": sum(inside),
            "median": _median(timing["speedup"] for timing in timings),
            "half_width_percent": _half_width(timings),
        }
    total = sum(each["n"] for each in found.values())
    return {
        "inside_percent": 100 * sum(each["inside"] for each in found.values()) / max(1, total),
        **found,
    }


def kernelgym(fleet: Fleet, count: int) -> dict[str, Any]:
    """KernelGYM's number beside Assay's, of one honest kernel among others in flight: three
    warm-ups, the mean of a hundred calls between events (EventTiming).
    """
    other = small(count)
    pair = {**other[0], "protocol": "kernelgym"}
    rows, _ = fleet.run([each for spec in other for each in (pair, spec)])
    timings = [
        row["timing"]
        for row in rows
        if row["index"] % 2 == 0 and row["timing"] and row["timing"]["event_timing"]
    ]
    numbers = {
        "ours": [each["speedup"] for each in timings],
        "kernelgym": [each["event_timing"]["speedup"] for each in timings],
    }
    found: dict[str, Any] = {"n": len(timings), "rows": timings}
    for name, speedups in numbers.items():
        found[name] = {
            "median": _median(speedups),
            "least": min(speedups, default=None),
            "most": max(speedups, default=None),
        }
    return found


def compiled(fleet: Fleet) -> dict[str, Any]:
    """A candidate against its reference compiled by torch.compile; measured once for
    a problem, then known.
    """
    found: dict[str, Any] = {}
    for name in ("layer_norm", "swiglu_half"):
        case = next(case for case in zoo.cases() if case.name == f"honest/{name}_triton")
        plain = job(spec_of(case, budget=0.5))
        asked = replace(plain, options=replace(plain.options, baselines=BASELINES))
        began = time.perf_counter()
        evaluation, _ = measure(asked, fleet.host)
        alike = lambda other: measure(other, fleet.host)[0]  # noqa: E731
        evaluation = compiled_baselines.added(
            evaluation, asked, fleet.host.baselines, alike, Cancellation()
        )
        timing = evaluation.timing
        found[name] = {
            "seconds": time.perf_counter() - began,
            "status": str(evaluation.status),
            "speedup_over_eager": timing.speedup if timing else None,
            "baselines": [asdict(each) for each in timing.baselines] if timing else [],
        }
    return found


def memory(fleet: Fleet) -> dict[str, float]:
    """Device memory in GiB: all that is in use, and the referee's own tensors.  Also the
    processes that have served and still exist: tearing down keeps up if their number
    does not grow with each figure.
    """
    if not torch.cuda.is_available():
        return {"unburied": fleet.host.candidates.unreaped}
    free, total = torch.cuda.mem_get_info()
    return {
        "used_gib": (total - free) / 2**30,
        "referee_gib": torch.cuda.memory_reserved() / 2**30,
        "unburied": fleet.host.candidates.unreaped,
    }
