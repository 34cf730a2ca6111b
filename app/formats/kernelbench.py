"""EXPORT: KernelBench's `eval_results.json`, for its analysis scripts: problem number → samples.

A sample's number is its place among the samples of its problem.  A hack counts as incorrect there, and `runtime` is in
milliseconds, −1 where there is none."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from app.domain.example import Example
from app.domain.selection import Kind
from app.domain.verdict import Label
from app.formats.base import JSONL, Rows

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
            ("problem", pa.string()),
            ("compiled", pa.bool_()),
            ("correctness", pa.bool_()),
            ("metadata", pa.struct([(name, pa.string()) for name in _METADATA])),
            ("runtime", pa.float64()),
            ("runtime_stats", pa.struct([("undisturbed", pa.float64()), ("speedup", pa.float64())])),
        ]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """One sample."""
        facts = example.facts
        counts = facts.correct and facts.verdict != Label.HACK
        runtime_ms = facts.candidate_us / 1000 if counts and facts.candidate_us is not None else -1.0
        return {
            "problem": _number(facts.problem),
            "compiled": facts.status not in ("compile_error", "invalid", "no_code"),
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
        """The document out of its lines."""
        found: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            samples = found.setdefault(row["problem"], [])
            samples.append({"sample_id": len(samples)} | {name: row[name] for name in row if name != "problem"})
        return {RESULTS: found}


def _number(name: str) -> str:
    """`19` of `19_ReLU`; the whole name where it has no number."""
    found = re.match(r"\d+", name)
    return found[0] if found else name
