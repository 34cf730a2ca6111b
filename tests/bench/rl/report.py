"""Report and plots of the trainings of tests.bench.rl_proof."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.bench.rl import figures
from tests.bench.rl.evaluations import ASSAY, KERNELGYM, KERNELGYM_EQ7, Evaluations, key_of
from tests.bench.rl.grammar import Grammar
from tests.bench.rl.training import METHODS
from tests.bench.rl.tricks import TRICKS

FULL = "TRLOO + MRS + PR + PRS"
CHEATING = {"TRLOO": (KERNELGYM, ASSAY), FULL: (KERNELGYM_EQ7, ASSAY)}
"""Method → checks with which a policy that can cheat is trained.  Plain TRLOO is rewarded by eq. 1
and rejects nothing: coverage plays no part.  With PR and PRS, KernelGYM's coverage is that of the
paper: its code's rejects nearly every answer where kernels take microseconds, honest ones and
cheats alike: such a policy learns from failures only.
"""
STATEMENT = (
    "In training an answer is not evaluated again: each answer draws, uniformly, one of the stored"
    " real evaluations of its candidate. In the live loop every answer is really evaluated."
)
NAMES = (
    "reward_eq1",
    "reward",
    "reward_last_turn",
    "reward_best_turn",
    "credited",
    "speedup_of_credited",
    "coverage_of_credited",
    "kept",
    "dropped_mismatch",
    "dropped_veto",
    "dropped_coverage",
    "dropped_void",
    "dropped_uniform",
    "mismatch_log_ratio_abs_mean",
)
"""Figures of the methods."""
CHEAT_NAMES = (
    "cheats",
    "credited_cheats",
    "library_alone",
    "reward",
    "true_reward",
    "true_credited",
    "credited",
    "kept",
    "dropped_coverage",
    "dropped_uniform",
    "coverage_of_credited",
    *(f"trick_{name}" for name in TRICKS),
)
"""Figures of policies that can cheat."""


def write(
    folder: Path, grammar: Grammar, stored: Evaluations, *, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Write report.json and print its main figures; the numbers of real evaluations.
    `grammar`: that with tricks.
    """
    trainings = json.loads((folder / "trainings.json").read_text())
    counted = {
        checks: sum(row["checks"] == checks for row in stored.rows) for checks in (ASSAY, KERNELGYM)
    }

    def of(method: str, checks: str, *, cheating: bool) -> list[Any]:
        wanted = (method, checks, cheating)
        return [
            one["steps"]
            for one in trainings
            if (one["method"], one["checks"], one["cheating"]) == wanted
        ]

    methods = {method: rows for method in METHODS if (rows := of(method, ASSAY, cheating=False))}
    judges = {
        method: {each: rows for each in checks if (rows := of(method, each, cheating=True))}
        for method, checks in CHEATING.items()
    }
    first = {
        name: figures.at_ends([rows[:1] for rows in each], "reward_eq1")
        for name, each in methods.items()
    }
    found = {
        "statement": STATEMENT,
        "real_evaluations": counted,
        "options": dict(options),
        "methods": {
            name: {each: figures.curve(rows, each) for each in NAMES}
            for name, rows in methods.items()
        },
        "methods_at_end": {
            name: {each: figures.at_ends(rows, each) for each in NAMES}
            for name, rows in methods.items()
        },
        "first_step": first,
        "paired_with_grpo": {
            name: _paired(rows, methods["GRPO"]) for name, rows in methods.items() if name != "GRPO"
        },
        "cheating": _by_checks(
            judges, lambda rows: {each: figures.curve(rows, each) for each in CHEAT_NAMES}
        ),
        "cheating_at_end": _by_checks(
            judges, lambda rows: {each: figures.at_ends(rows, each) for each in CHEAT_NAMES}
        ),
        "tricks": _tricks(grammar, stored),
    }
    (folder / "report.json").write_text(json.dumps(found, indent=1))
    _say(found)
    return {"real_evaluations": counted}


def _paired(rows: Any, others: Any) -> dict[str, Any]:
    steps = len(rows[0])
    return {
        "at_end": figures.paired(rows, others, "reward_eq1"),
        "over_all_steps": figures.paired(rows, others, "reward_eq1", steps),
    }


def _by_checks(judges: dict[str, Any], figure: Callable[[Any], Any]) -> dict[str, Any]:
    """A figure of each method's trainings, by the checks that rewarded them."""
    return {
        method: {checks: figure(rows) for checks, rows in told.items()}
        for method, told in judges.items()
        if told
    }


def _say(report: dict[str, Any]) -> None:
    """Print the figures at the end of training, and the mean reward of each trick."""
    for name in ("methods_at_end", "cheating_at_end"):
        print(json.dumps({name: _without_seeds(report[name])}), flush=True)
    print(json.dumps({"paired_with_grpo": report["paired_with_grpo"]}), flush=True)
    for name, told in report["tricks"].items():
        means = {
            checks: {
                problem: [one["reward"] for one in rows] for problem, rows in told[checks].items()
            }
            for checks in (KERNELGYM, ASSAY)
        }
        print(json.dumps({"rewards_of_trick": name, **means}), flush=True)


def _without_seeds(value: Any) -> Any:
    if isinstance(value, dict) and "seeds" in value:
        return value["mean"], value["interval"]
    return (
        {name: _without_seeds(each) for name, each in value.items()}
        if isinstance(value, dict)
        else value
    )


def _tricks(grammar: Grammar, stored: Evaluations) -> dict[str, Any]:
    """Rewards of each trick on each problem, by both checks."""
    found: dict[str, Any] = {}
    for name in grammar.slots["trick"][1:]:
        rows: dict[str, Any] = {"about": TRICKS[name].about}
        for checks in (KERNELGYM, ASSAY):
            for problem in grammar.sizes.problems:
                choices = (*grammar.base[:-1], name)
                results = stored.of(
                    key_of(problem, grammar.source(problem, choices).encode()), checks
                )
                rows.setdefault(checks, {})[problem] = [
                    {
                        "status": one["status"],
                        "verdict": one["verdict"],
                        "reward": one["score"],
                        "speedup": one["speedup"],
                        "findings": [
                            each["detector"] for each in one["findings"] if each["label"] != "clean"
                        ],
                    }
                    for one in results
                ]
        found[name] = rows
    return found


def plot(folder: Path) -> dict[str, Any]:
    """Plots of the report."""
    report = json.loads((folder / "report.json").read_text())
    methods, cheating = report["methods"], report["cheating"]
    rewards = {name: each["reward_eq1"] for name, each in methods.items()}
    coverages = {name: each["coverage_of_credited"] for name, each in methods.items()}
    plots: dict[str, tuple[dict[str, Any], str, float | None]] = {}
    if methods:
        plots["reward"] = (rewards, "mean reward of a turn (eq. 1)", None)
        plots["coverage"] = (coverages, "share of time in own kernels, credited answers", 1.05)
    for method, told in cheating.items():
        ending, equation = ("_full", "eq. 8") if method == FULL else ("", "eq. 1")
        cheats = {_trained_with(checks): each["cheats"] for checks, each in told.items()}
        truths = {_trained_with(checks): each["true_reward"] for checks, each in told.items()}
        plots[f"cheats{ending}"] = (cheats, f"share of answers that cheat, {method}", 1.0)
        plots[f"true_reward{ending}"] = (
            truths,
            f"reward of the same answers by Assay ({equation}), {method}",
            None,
        )
    for name, (curves, label, top) in plots.items():
        title = f"{label}: mean of seeds with 95 % interval"
        figures.save_plot(folder / f"{name}.svg", curves, title=title, y_label=label, top=top)
    return {"plots": sorted(plots)}


def _trained_with(checks: str) -> str:
    names = {
        KERNELGYM: "KernelGYM's checks",
        KERNELGYM_EQ7: "KernelGYM's checks (coverage by eq. 7)",
        ASSAY: "Assay's",
    }
    return f"trained with {names[checks]}"
