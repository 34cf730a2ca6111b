"""Attempts of dialogues and the plans that a selection makes of them, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from app.domain.dataset.selection import Kind, Learns
from app.domain.source.near_duplicates import Similarity
from app.export.manifest import spec_of
from app.export.plan_tables import PLAN
from app.export.row_selection import Selector
from app.export.selection_inputs import Inputs
from app.store.dataset.export_attempts import PASSED, SCHEMA
from app.store.dataset.export_conditions import Condition

CONDITIONS = [
    Condition(name=name, keeps=None, rule="")
    for name in ("where", "valid", "judged", "correct", "clean")
]
CORRECT, CLEAN = 3, 4


def attempts(*turns: str, trajectory: str = "t", problem: str = "p") -> list[dict[str, Any]]:
    """One trajectory: a turn is `wrong`, `hack`, `suspect`, or the speedup of a right one."""
    found = []
    for number, what in enumerate(turns):
        speedup = float(what) if what[0].isdigit() else 9.0 if what in ("hack", "suspect") else None
        label = what if what in ("hack", "suspect") else "clean"
        values: dict[str, Any] = dict.fromkeys(SCHEMA.names)
        values |= {
            "evaluation_id": f"{trajectory}{number}",
            "turn_id": f"turn-{trajectory}{number}",
            "verdict_id": "v",
            "problem_id": problem,
            "trajectory_id": trajectory,
            "turn": number,
            "family": "f",
            "backend": "triton",
            "source_sha256": f"s-{trajectory}{number}",
            "source_bytes": 10,
            "correct": speedup is not None,
            "verdict": label,
            "speedup": speedup,
            "speedup_ci_low": speedup and speedup * 0.98,
            "speedup_ci_high": speedup and speedup * 1.02,
            "coverage_time": 0.9,
            "teachable": True,
            "believed": True,
            "device_class": "h200",
            "protocol": "assay-1",
            "baseline": "eager",
            "stage": CORRECT if speedup is None else PASSED if label == "clean" else CLEAN,
            "prompt": "opening" if number == 0 else f"{trajectory} {number}",
            "compiled": speedup is not None,
            "status": "incorrect" if speedup is None else "passed",
        }
        found.append(values)
    return found


def select(
    rows: list[dict[str, Any]], kind: Kind = Kind.TURN, learns: Learns = Learns.ANSWER, **spec: Any
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The planned rows, and the stage at which every attempt ended."""
    wanted = spec_of({"similarity": Similarity.NONE} | spec)
    chosen = Selector(
        Inputs(spec=wanted, kind=kind, conditions=CONDITIONS, contaminated={}, learns=learns)
    )
    chunk = chosen.chunk(pa.Table.from_pylist(rows, schema=SCHEMA))
    assert chunk.plan.schema.equals(PLAN)
    stages = {one["evaluation_id"]: one["stage"] for one in chunk.decisions.to_pylist()}
    assert set(stages.values()) <= {"in", *chosen.stages}
    return chunk.plan.to_pylist(), stages


def answers(plan: list[dict[str, Any]]) -> list[str]:
    return sorted(row["evaluation_id"] for row in plan)


def roles(row: Mapping[str, Any]) -> dict[str | None, str]:
    return {one["evaluation_id"]: one["role"] for one in row["beside"]}
