"""ENQUEUE: import of KernelBook's Parquet files: PyTorch programs as problems, each
with its licences.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.domain import ids
from app.domain.problem import Problem
from app.domain.source import source_text
from app.imports import fields, parquet
from app.imports.base import BadImportError, Imported, Listed, Progress, attempted, store_problems
from app.store.postgres.database import Database

_BOOK = ("entry_point", "python_code", "licenses")


def kernelbook(database: Database, path: Path, *, progress: Progress | None = None) -> Imported:
    """Import the PyTorch programs of `GPUMODE/KernelBook` as problems, each with the
    licences of its repository.
    """
    return store_problems(
        database, attempted(parquet.rows(path, _BOOK), lambda row: _book_problem(*row)), progress
    )


def _book_problem(row: dict[str, Any], where: str) -> Listed:
    if not isinstance(row["python_code"], str) or not isinstance(row["entry_point"], str):
        raise BadImportError(f"{where}: expected text in python_code and entry_point")
    reference = source_text.encode(row["python_code"])
    told = row.get("uuid")
    problem = Problem(
        name=source_text.printable(
            f"{row['entry_point']}_{ids.sha256(reference)[:12] if told in (None, '') else told}"
        ),
        reference=reference,
        source_set="kernelbook",
        entry_point=row["entry_point"],
    )
    licence = " OR ".join(sorted(filter(None, row["licenses"] or []))) or None
    return Listed(
        problem=problem,
        licence=licence,
        claims=fields.further(row, (*_BOOK, "triton_code", "original_triton_code")),
    )
