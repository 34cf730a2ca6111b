"""Datasets made of a filled database, and their rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from app import export as exporting
from app import formats
from app.export import verify
from app.store.postgres.database import Database


def make(
    database: Database, out: Path, where: str = "", layout: str = "trl_sft", **options: Any
) -> dict[str, Any]:
    if not formats.find(layout).kinds[0].takes_all:
        options = {"similarity": "raw"} | options
    spec = exporting.spec_of({"format": layout, "where": where} | options)
    manifest = exporting.export(database, spec, out)
    stored: dict[str, Any] = json.loads((out / "manifest.json").read_text())
    assert stored == manifest.sealed()
    assert verify(out) == []
    return stored


def rows_in(out: Path) -> list[dict[str, Any]]:
    files = sorted(out.glob("data/*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def dialogue(row: dict[str, Any]) -> list[dict[str, str]]:
    return [*row["prompt"], *row["completion"]]


def funnel(manifest: dict[str, Any]) -> dict[str, int]:
    return {stage["stage"]: stage["rows"] for stage in manifest["funnel"]}


def nothing_left(parent: Path) -> bool:
    return not any(parent.iterdir())
