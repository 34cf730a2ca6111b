"""RL on real kernels, end to end: does a policy improve, and does it cheat?

    python3 -m tests.bench.rl_proof all --out DIR                   on a GPU: every stage
    python3 -m tests.bench.rl_proof all --device cpu --out DIR      in the interpreter, tiny
    python3 -m tests.bench.rl_proof live kernelgym --out DIR        some stages
    python3 -m tests.bench.rl_proof judge --out DIR                 judges stored evaluations again;
                                                                    then train, report
    python3 -m tests.bench.rl_proof plot --out DIR                  plots

`judge` needs the packages of the store, `plot` those of the web UI.

Stages, each of which adds to DIR and goes on from its content:

    live        TRLOO with a real evaluation of every answer: throughput of the loop
    evaluate    every kernel of the grammar `--repeats` times through the evaluator
    kernelgym   KernelGYM's checks of every kernel of the grammar with tricks
    train       five seeds: three methods; a policy that can cheat, with KernelGYM's
                checks and with Assay's
    report      report.json: means over seeds with 95 % intervals

In `train` an answer is not evaluated again: it draws one of the stored real evaluations of its
candidate, each as likely.  The report says how many real evaluations there are.  The grammar is
finite, so that nothing is modelled.

Needs torch and triton, nothing else of this project's dependencies.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from app.domain.job import JobOptions
from tests.bench.rl import report, utilisation
from tests.bench.rl.evaluations import (
    ASSAY,
    KERNELGYM_EQ7,
    Asked,
    Evaluations,
    check_as_kernelgym,
    evaluate,
    judge_again,
    key_of,
)
from tests.bench.rl.grammar import CPU, GPU, Grammar, Sizes
from tests.bench.rl.rollouts import Drawn, Live, covered_s, setting
from tests.bench.rl.training import METHODS, Options, Trainer, outcome_figures

STAGES = ("live", "evaluate", "kernelgym", "train", "report")
LATER = ("judge", "plot")
BUDGET_S = 0.08
"""For timing one candidate: REWARD_BUDGET_S of app.domain.job."""


def main() -> None:
    """See above."""
    arguments = _arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    for stage in STAGES if "all" in arguments.stage else arguments.stage:
        began = time.perf_counter()
        told = {
            "live": _live,
            "evaluate": _evaluate,
            "kernelgym": _kernelgym,
            "train": _train,
            "report": _report,
            "judge": _judge,
            "plot": _plot,
        }[stage](arguments)
        _note(arguments.out, stage, {"stage_s": round(time.perf_counter() - began, 1), **told})
    if arguments.fleet is not None:
        arguments.fleet.close()


def _arguments() -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stage", nargs="+", choices=("all", *STAGES, *LATER))
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--device-class", default="h200")
    parser.add_argument("--train-device", choices=("cuda", "cpu"), help="device of the policy")
    parser.add_argument("--slots", type=int, help="evaluations in flight (8; CPU: 2)")
    parser.add_argument(
        "--rows", type=int, help="rows of the problems, for slower or faster references"
    )
    parser.add_argument(
        "--repeats", type=int, help="evaluations of each candidate at least (2; CPU: 1)"
    )
    parser.add_argument("--live-steps", type=int, help="steps of the live loop (4; CPU: 2)")
    parser.add_argument("--steps", type=int, help="steps of each training (60; CPU: 30)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--samples", type=int, default=Options.samples, help="trajectories of a problem in a step"
    )
    parser.add_argument(
        "--cheating-only",
        action="store_true",
        help="evaluate and train nothing but the grammar with tricks",
    )
    parser.add_argument("--processes", type=int, help="trainings side by side (5; CPU: 1)")
    found = parser.parse_args()
    usual = {
        "slots": (8, 2),
        "repeats": (2, 1),
        "live_steps": (4, 2),
        "steps": (60, 30),
        "processes": (5, 1),
    }
    for name, values in usual.items():
        if getattr(found, name) is None:
            setattr(found, name, values[found.device == "cpu"])
    found.fleet, found.train_device = None, found.train_device or found.device
    return found


def _sizes(arguments: Any) -> Sizes:
    sizes = CPU if arguments.device == "cpu" else GPU
    return sizes if arguments.rows is None else replace(sizes, rows=arguments.rows)


def _options(arguments: Any) -> Options:
    options = Options(
        steps=arguments.steps, samples=arguments.samples, device=arguments.train_device
    )
    return replace(options, width=64, depth=2) if arguments.device == "cpu" else options


def _setting(arguments: Any, *, cheating: bool, reward: str) -> Any:
    device_class = "cpu" if arguments.device == "cpu" else arguments.device_class
    grammar = Grammar(_sizes(arguments), cheating=cheating)
    return setting(
        grammar, turns=Options.turns, reward=reward, device_class=device_class, budget_s=BUDGET_S
    )


def _stored(arguments: Any) -> Evaluations:
    path = arguments.out / "evaluations.json"
    return Evaluations.load(path) if path.exists() else Evaluations()


def _fleet(arguments: Any) -> Any:
    """The evaluator, started when it is first needed."""
    if arguments.fleet is None:
        from tests.bench.gpu_fleet import Fleet

        arguments.fleet = Fleet(
            "cpu" if arguments.device == "cpu" else arguments.device_class, arguments.slots
        )
        _note(arguments.out, "environment", {"environment": arguments.fleet.environment})
    return arguments.fleet


# Stages
# --------------------------------------------------------------------------------------------------


def _live(arguments: Any) -> dict[str, Any]:
    """Steps of TRLOO with an evaluation of every answer within them."""
    fleet, stored = _fleet(arguments), _stored(arguments)
    chosen = _setting(arguments, cheating=False, reward="dr_kernel_pr")
    first = [
        (problem, chosen.grammar.source(problem, chosen.grammar.base))
        for problem in chosen.grammar.sizes.problems
    ]
    evaluate(fleet, _asked(chosen, first), stored)  # processes of the references
    trainer = Trainer(setting=chosen, method="TRLOO", options=_options(arguments), seed=0)
    live, rows, known = Live(fleet, stored), [], len(stored.rows)
    with closing(live), utilisation.sampled(arguments.device) as used:
        began = time.perf_counter()
        for _ in range(arguments.live_steps):
            before, since = len(live.spans), time.perf_counter()
            found, told = trainer.step(live)
            told |= outcome_figures(chosen, found)
            distinct = len({attempt.key for attempts in found.attempts for attempt in attempts})
            made = {"evaluations": len(live.spans) - before, "distinct_candidates": distinct}
            rows.append({**told, **made, "wall_s": time.perf_counter() - since})
            print(json.dumps({"live": rows[-1]}), flush=True)
        wall = time.perf_counter() - began
    stored.save(arguments.out / "evaluations.json")
    return {
        "steps": rows,
        **_rates(live.spans, rows, wall, fleet.slots),
        "stage_ms": _stage_ms([row["evaluation"] for row in stored.rows[known:]]),
        "gpu_utilisation_percent": fmean(used) if used else None,
    }


def _rates(
    spans: list[tuple[float, float]], rows: list[dict[str, Any]], wall: float, slots: int
) -> dict[str, Any]:
    """Throughput of the live loop.  `spans`: of its evaluations; `wall`: its seconds."""
    evaluating, updating = covered_s(spans), sum(row["update_s"] for row in rows)
    return {
        "evaluations": len(spans),
        "wall_s": wall,
        "evaluations_per_minute_of_wall": 60 * len(spans) / wall,
        "share_of_slots_used": sum(ended - began for began, ended in spans) / (slots * wall),
        "share_evaluating": evaluating / wall,
        "share_updating": updating / wall,
        "share_evaluating_or_training": (evaluating + updating) / wall,
    }


def _stage_ms(evaluations: list[dict[str, Any]]) -> dict[str, float]:
    """Milliseconds of each stage, with its waits: means over all evaluations, longest first."""
    names = {name for each in evaluations for name in each["stage_ms"]}
    means = {name: fmean(each["stage_ms"].get(name, 0.0) for each in evaluations) for name in names}
    return {
        name: round(value, 1) for name, value in sorted(means.items(), key=lambda item: -item[1])
    }


def _evaluate(arguments: Any) -> dict[str, Any]:
    """Real evaluations of all kernels of both grammars, until each has `--repeats`."""
    fleet, stored = _fleet(arguments), _stored(arguments)
    wanted = []
    for cheating in (True,) if arguments.cheating_only else (False, True):
        chosen = _setting(arguments, cheating=cheating, reward="dr_kernel_pr")
        wanted += _asked(chosen, list(chosen.grammar.sources()))
    unique = {key_of(one.problem, one.candidate): one for one in wanted}
    todo = [
        one
        for key, one in unique.items()
        for _ in range(arguments.repeats - len(stored.of(key, ASSAY)))
    ]
    random.Random(0).shuffle(todo)
    path, began = arguments.out / "evaluations.json", time.perf_counter()
    evaluate(fleet, todo, stored, path)
    seconds = time.perf_counter() - began
    stored.save(path)
    invalid = [row["result"]["error"] for row in stored.rows if not row["result"]["valid"]]
    return {
        "candidates": len(unique),
        "made": len(todo),
        "seconds": seconds,
        "per_minute": 60 * len(todo) / seconds if todo else None,
        "invalid": invalid[:5],
        "invalid_count": len(invalid),
    }


def _kernelgym(arguments: Any) -> dict[str, Any]:
    """KernelGYM's checks, with the evaluator away from the device."""
    if arguments.fleet is not None:
        arguments.fleet.close()
        arguments.fleet = None
    stored = _stored(arguments)
    grammar = Grammar(_sizes(arguments), cheating=True)
    todo = [
        (problem, text)
        for problem, text in grammar.sources()
        if not stored.of(key_of(problem, text.encode()), KERNELGYM_EQ7)
    ]
    references = {problem: grammar.reference(problem) for problem in grammar.sizes.problems}
    cpu = arguments.device == "cpu"
    seconds = (
        check_as_kernelgym(todo, references, stored, cpu=cpu, slots=arguments.slots)
        if todo
        else 0.0
    )
    stored.save(arguments.out / "evaluations.json")
    return {"checked": len(todo), "seconds": seconds}


def _train(arguments: Any) -> dict[str, Any]:
    """All trainings, side by side."""
    if arguments.fleet is not None:
        arguments.fleet.close()
        arguments.fleet = None
    methods = () if arguments.cheating_only else METHODS
    runs = [(method, ASSAY, False, seed) for seed in range(arguments.seeds) for method in methods]
    known = {row["checks"] for row in _stored(arguments).rows}
    runs += [
        (method, each, True, seed)
        for seed in range(arguments.seeds)
        for method, checks in report.CHEATING.items()
        if known.issuperset(checks)
        for each in checks
    ]
    plain = {**vars(arguments), "fleet": None}
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.processes, mp_context=spawn) as pool:
        found = list(pool.map(_trained, [(plain, *run) for run in runs]))
    trainings = [
        {"method": method, "checks": checks, "cheating": cheating, "seed": seed, "steps": rows}
        for (method, checks, cheating, seed), (rows, _) in zip(runs, found, strict=True)
    ]
    (arguments.out / "trainings.json").write_text(json.dumps(trainings))
    with (arguments.out / "rollouts.jsonl").open("w") as file:
        for _, lines in found:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    return {"trainings": len(runs)}


def _trained(
    given: tuple[dict[str, Any], str, str, bool, int],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """One training: figures of its steps, and of seed 0 its rollouts."""
    plain, method, checks, cheating, seed = given
    torch.set_num_threads(1)
    arguments = argparse.Namespace(**plain)
    stored = _stored(arguments)
    chosen = _setting(arguments, cheating=cheating, reward=METHODS[method][1])
    trainer = Trainer(setting=chosen, method=method, options=_options(arguments), seed=seed)
    evaluator, dice = Drawn(stored, checks, seed), random.Random(1000 + seed)
    rows, lines = [], []
    for _ in range(arguments.steps):
        found, figures_ = trainer.step(evaluator)
        rows.append({**figures_, **outcome_figures(chosen, found, stored, dice)})
        if seed == 0 and checks == ASSAY and not cheating:
            lines += [
                {
                    "method": method,
                    "step": figures_["step"],
                    "problem": problem,
                    "sample": number,
                    "turns": [one.job_id for one in attempts],
                }
                for number, (problem, attempts) in enumerate(
                    zip(found.problems, found.attempts, strict=True)
                )
            ]
    return rows, lines


def _report(arguments: Any) -> dict[str, Any]:
    """Figures of everything, in report.json."""
    grammar = Grammar(_sizes(arguments), cheating=True)
    return report.write(
        arguments.out, grammar, _stored(arguments), options=asdict(_options(arguments))
    )


def _judge(arguments: Any) -> dict[str, Any]:
    stored = _stored(arguments)
    grammar = Grammar(_sizes(arguments), cheating=True)
    references = {problem: grammar.reference(problem) for problem in grammar.sizes.problems}
    changed = judge_again(stored, references)
    stored.save(arguments.out / "evaluations.json")
    return {"evaluations": len(stored.rows), "changed": changed}


def _plot(arguments: Any) -> dict[str, Any]:
    return report.plot(arguments.out)


# Helpers
# --------------------------------------------------------------------------------------------------


def _asked(chosen: Any, sources: list[tuple[str, str]]) -> list[Asked]:
    options: JobOptions = chosen.spec.job_options
    return [
        Asked(
            problem=problem,
            reference=chosen.grammar.reference(problem).encode(),
            candidate=text.encode(),
            options=options,
        )
        for problem, text in sources
    ]


def _note(folder: Path, stage: str, told: dict[str, Any]) -> None:
    """Keep a stage's result in stages.json, and print it without its steps."""
    path = folder / "stages.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**kept, stage: told}, indent=1))
    print(
        json.dumps({stage: {name: value for name, value in told.items() if name != "steps"}}),
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
