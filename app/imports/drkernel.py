"""ENQUEUE: imports of Dr. Kernel's Parquet files: cold-start dialogues, and the
problems of its RL prompts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.domain import ids
from app.domain.problem import Problem
from app.domain.source import source_text
from app.imports import fields, parquet
from app.imports.base import (
    BadImportError,
    Imported,
    Listed,
    Progress,
    Sample,
    attempted,
    check,
    store_problems,
    store_samples,
    turns_of,
)
from app.store.postgres.database import Database

_RL = ("reward_model", "extra_info")
_COLDSTART = ("messages", "entry_point", "original_python_code", "uuid")


def drkernel_coldstart(
    database: Database, path: Path, *, device_class: str = "cpu", progress: Progress | None = None
) -> Imported:
    """Import dialogues in the layout of `hkust-nlp/drkernel-coldstart-8k`: a
    trajectory each, a job for each answer.
    """
    check(device_class, None)
    return store_samples(
        database,
        attempted(parquet.rows(path, _COLDSTART), lambda row: _dialogue(*row)),
        importer="drkernel_coldstart",
        named=f"drkernel-coldstart/{path.stem}",
        recorded={"licence": "MIT"},
        options={"device_class": device_class, "progress": progress},
    )


def drkernel_rl(database: Database, path: Path, *, progress: Progress | None = None) -> Imported:
    """Import problems in the layout of `hkust-nlp/drkernel-rl-data` (verl's)."""
    return store_problems(
        database, attempted(parquet.rows(path, _RL), lambda row: _rl_problem(*row)), progress
    )


def _dialogue(row: dict[str, Any], where: str) -> Sample:
    if not isinstance(row["original_python_code"], str) or not isinstance(row["entry_point"], str):
        raise BadImportError(f"{where}: expected text in original_python_code and entry_point")
    problem = Problem(
        name=source_text.printable(f"{row.get('module_name') or row['entry_point']}_{row['uuid']}"),
        reference=source_text.encode(row["original_python_code"]),
        source_set="drkernel_coldstart",
        entry_point=row["entry_point"],
    )
    return Sample(
        where=where,
        label=str(row["uuid"]),
        problem=problem,
        licence=None,
        turns=turns_of(fields.messages_of(row["messages"], where), where),
        claims=fields.further(row, _COLDSTART),
    )


def _rl_problem(row: dict[str, Any], where: str) -> Listed:
    try:
        info, reference = row["extra_info"], source_text.encode(row["reward_model"]["ground_truth"])
        told = next(
            (info[key] for key in ("uuid", "problem_id") if info.get(key) not in (None, "")), None
        )
        name = ids.sha256(reference)[:12] if told is None else told
        entry_point = source_text.printable(info.get("entry_point") or Problem.entry_point)
    except (TypeError, KeyError, AttributeError) as error:
        raise BadImportError(
            f"{where}: expected texts in reward_model.ground_truth and extra_info.entry_point"
        ) from error
    problem = Problem(
        name=source_text.printable(f"{info.get('module_name') or entry_point}_{name}"),
        reference=reference,
        source_set="drkernel_rl",
        level=fields.level_of(info.get("level")),
        entry_point=entry_point,
    )
    prompt = row.get("prompt")
    return Listed(
        problem=problem,
        prompt=fields.messages_of(prompt, where) if isinstance(prompt, list) else (),
        claims=fields.further(info, ("uuid", "entry_point")),
    )
