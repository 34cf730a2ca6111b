"""EXPORT: reasons why an evaluation is in a dataset or out of it, and differences of
two datasets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.export.funnel_stages import IN, RENDERED, WHERE
from app.export.manifest import NAME
from app.export.working_folder import ExportError
from app.export.writers import DECISIONS_STEM, LINEAGE_STEM, row_indexes, rows_of

UNFIT = "unfit.jsonl"
"""File of attempts that were chosen and could not be shown, one per line."""

_ANSWERS = ("answer", "rejected")
_MADE_OF = (*_ANSWERS, "trained")
"""Roles of the attempts that a row is made of; the other roles are attempts that it
only rests on.
"""


def why(directory: Path, evaluation_id: str) -> list[dict[str, Any]]:
    """Decision about an evaluation, once for each turn that asked for it; empty if the filter does
    not keep it and no row rests on it.

    `{"evaluation_id", "turn_id", "stage", "rule", "detail", "rows"}`: `stage` dropped it, or is
    `in`; `rule` says which attempts that stage keeps; `rows` are the rows made of it or resting on
    it, as `{"split", "row", "index", "role"}`: the place in its split from 0, and the lineage's
    number.  Raises ExportError for a folder that is no dataset.
    """
    manifest = _manifest(directory)
    rows = list(_lineage_of(directory, evaluation_id))
    for split in {row["split"] for row in rows}:
        places = {index: place for place, index in enumerate(row_indexes(directory, split))}
        for row in rows:
            if row["split"] == split:
                row["row"] = places[row["index"]]
    unfit = {
        one["turn_id"]: one["reason"]
        for one in rows_of(directory / UNFIT)
        if one["evaluation_id"] == evaluation_id
    }
    rules = {one["stage"]: one["rule"] for one in manifest["funnel"]}
    rules[RENDERED] = rules["rows"]
    found = []
    for path in sorted(directory.glob(f"{DECISIONS_STEM}-*.parquet")):
        table = pq.read_table(path, filters=pc.field("evaluation_id") == evaluation_id)
        for decision in table.to_pylist():
            own = [_place(row) for row in rows if row["turn_id"] == decision["turn_id"]]
            if decision["stage"] == IN and not any(place["role"] in _MADE_OF for place in own):
                decision["stage"], decision["detail"] = RENDERED, unfit.get(decision["turn_id"])
            found.append(decision | {"rule": rules.get(decision["stage"]), "rows": own})
    return found + _beside(evaluation_id, rows, {one["turn_id"] for one in found}, rules)


def _beside(
    evaluation_id: str, rows: list[dict[str, Any]], decided: set[str | None], rules: dict[str, Any]
) -> list[dict[str, Any]]:
    """Turns that the filter drops although rows show or rest on them: such a turn
    has no decision of its own.
    """
    others: dict[str | None, list[dict[str, Any]]] = {
        row["turn_id"]: [] for row in rows if row["turn_id"] not in decided
    }
    for row in rows:
        if row["turn_id"] in others:
            others[row["turn_id"]].append(_place(row))
    same = {
        "evaluation_id": evaluation_id,
        "stage": WHERE,
        "detail": None,
        "rule": rules.get(WHERE),
    }
    return [same | {"turn_id": turn_id, "rows": places} for turn_id, places in others.items()]


def diff(before: Path, after: Path) -> dict[str, Any]:
    """Differences of two datasets: settings, stages, and rows, which are matched by the
    attempts that they are made of.

    `{"spec": {name: [before, after]}, "funnel": {stage: [before, after]}, "added": n, "removed": n,
    "changed": n, "examples": {"added": […], "removed": […], "changed": […]}}`; a changed row
    belongs to the same evaluation and turn.  Raises ExportError for a folder that is no dataset.
    """
    manifests = [_manifest(folder) for folder in (before, after)]
    rows = [dict(_keyed(folder)) for folder in (before, after)]
    added = sorted(rows[1].keys() - rows[0].keys())
    removed = sorted(rows[0].keys() - rows[1].keys())
    changed = sorted(key for key in rows[0].keys() & rows[1].keys() if rows[0][key] != rows[1][key])
    named = {"added": added, "removed": removed, "changed": changed}
    return {
        "spec": _pairs(*(each["spec"] for each in manifests)),
        "funnel": _pairs(
            *({one["stage"]: one["rows"] for one in each["funnel"]} for each in manifests)
        ),
        **{name: len(keys) for name, keys in named.items()},
        "examples": {name: [key[0] for key in keys[:10]] for name, keys in named.items()},
    }


def _manifest(directory: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((directory / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ExportError(f"{directory}: expected a dataset with {NAME}: {error}") from error
    return found


def _pairs(before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[Any]]:
    names = [*before, *(name for name in after if name not in before)]
    return {
        name: [before.get(name), after.get(name)]
        for name in names
        if before.get(name) != after.get(name)
    }


def _keyed(directory: Path) -> Iterator[tuple[tuple[str, str, str], str]]:
    for path in sorted(directory.glob(f"{LINEAGE_STEM}-*.parquet")):
        for row in rows_of(path):
            if row["role"] in _ANSWERS:
                yield (row["evaluation_id"], row["turn_id"] or "", row["role"]), row["row_sha256"]


def _lineage_of(directory: Path, evaluation_id: str) -> Iterator[dict[str, Any]]:
    for path in sorted(directory.glob(f"{LINEAGE_STEM}-*.parquet")):
        yield from pq.read_table(
            path, filters=pc.field("evaluation_id") == evaluation_id
        ).to_pylist()


def _place(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("split", "row", "index", "role")}
