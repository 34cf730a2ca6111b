"""EXPORT: KernelBench's `eval_results.json`, for its analysis scripts: problem number → samples.

Problem numbers are those of a level, so that there is one file for each run, level and device
class: `runs/<run>/level<level>-<device class>/eval_results.json`, to be read with
`eval_results_dir=…/runs` and `run_name=<run>/level<level>-<device class>`.  A sample keeps the
number of its label (`…_sample_3…`); one without gets the lowest that is free.  An answer without
code is one that did not compile.  A hack counts as incorrect there, and `runtime` is in
milliseconds, −1 where there is none.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from itertools import count, islice
from typing import Any

import pyarrow as pa

from app.domain.dataset.example import Example
from app.domain.dataset.example_facts import EvaluationFacts
from app.domain.dataset.selection import Kind
from app.domain.trajectory import NO_CODE
from app.domain.verdict import is_credited
from app.formats.base import JSONL, Rows

ROOT = "runs"
RESULTS = "eval_results.json"
_METADATA = ("hardware", "device", "evaluation_id", "status")


class KernelBenchResults(Rows):
    """One line a sample; the document is assembled from the lines."""

    about = "KernelBench eval_results.json"
    kinds = (Kind.REWARDS,)
    container = JSONL
    splits = False
    schema = pa.schema(
        [
            ("group", pa.string()),
            ("problem", pa.string()),
            ("sample_id", pa.int32()),
            ("compiled", pa.bool_()),
            ("correctness", pa.bool_()),
            ("metadata", pa.struct([(name, pa.string()) for name in _METADATA])),
            ("runtime", pa.float64()),
            (
                "runtime_stats",
                pa.struct([("undisturbed", pa.float64()), ("speedup", pa.float64())]),
            ),
        ]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """One sample."""
        facts = example.facts
        counts = is_credited(correct=facts.correct, label=facts.verdict)
        runtime_ms = (
            facts.candidate_us / 1000 if counts and facts.candidate_us is not None else -1.0
        )
        return {
            "group": _group(facts),
            "problem": _number(facts.problem),
            "sample_id": _sample_id(facts.sample),
            "compiled": facts.status not in ("compile_error", "invalid", NO_CODE),
            "correctness": counts,
            "metadata": {
                "hardware": facts.device_name,
                "device": facts.device_class,
                "evaluation_id": facts.evaluation_id,
                "status": facts.status,
            },
            "runtime": runtime_ms,
            "runtime_stats": {"undisturbed": runtime_ms, "speedup": facts.speedup},
        }

    def assemble(self, rows: Any) -> dict[str, Any]:
        """The documents out of their lines, by path."""
        listed = list(rows)
        devices: dict[str, Counter[str]] = {}
        for row in listed:
            devices.setdefault(_run(row), Counter()).update(
                filter(None, [row["metadata"]["device"]])
            )
        found: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for row in (
            listed
        ):  # an answer without code ran nowhere: it stands where most answers of its run do
            device = row["metadata"]["device"] or _most(devices[_run(row)])
            group = f"{row['group']}-{re.sub(r'[^a-z0-9._-]+', '_', device)}"
            found.setdefault(group, {}).setdefault(row["problem"], []).append(row)
        return {
            f"{ROOT}/{group}/{RESULTS}": {
                number: _numbered(samples) for number, samples in of_group.items()
            }
            for group, of_group in sorted(found.items())
        }


def _run(row: dict[str, Any]) -> str:
    """Name of the run in a row's group."""
    return str(row["group"]).rpartition("/")[0]


def _most(counts: Counter[str]) -> str:
    """The most frequent, of equals the first by name; `none` of none."""
    return min(counts, key=lambda name: (-counts[name], name)) if counts else "none"


def _numbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Samples of one problem by their numbers; each number once."""
    taken: dict[int, dict[str, Any]] = {}
    waiting = []
    for row in rows:
        own = row["sample_id"]
        if own is None or own in taken:
            waiting.append(row)
        else:
            taken[own] = row
    free = (number for number in count() if number not in taken)
    numbered = sorted(
        (taken | dict(zip(list(islice(free, len(waiting))), waiting, strict=True))).items()
    )
    return [
        {"sample_id": number}
        | {name: row[name] for name in row if name not in ("group", "problem", "sample_id")}
        for number, row in numbered
    ]


def _group(facts: EvaluationFacts) -> str:
    """`<run>/level<level>` of characters that every file system takes; no two runs
    have one name.
    """
    run = facts.run or "no run"
    named = re.sub(r"[^\w.-]+|^\.+", "_", run, flags=re.ASCII)
    if named != run and facts.run is not None:
        named += f"-{hashlib.sha256(run.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    level = "none" if facts.level is None else facts.level
    return f"{named}/level{level}"


def _sample_id(label: str | None) -> int | None:
    """`3` of `level_1_problem_19_sample_3`; None where the label says none."""
    found = re.search(r"sample_?(\d{1,6})\b", label or "")
    return int(found[1]) if found else None


def _number(name: str) -> str:
    """`19` of `19_ReLU`; the whole name where it has no number."""
    found = re.match(r"\d+", name)
    return found[0] if found else name
