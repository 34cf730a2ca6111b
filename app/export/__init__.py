"""EXPORT: a declared selection → funnel → files, manifest and card.

    export      write a dataset
    funnel      rows that a selection would keep at each stage, nothing written
    preview     its first rows
    verify      prove that a folder agrees with its manifest
    reproduce   make the rows of a manifest again from the same database
    why         why an evaluation is in a dataset, or out of it
    diff        how two datasets differ

The stages are those of `app.domain.dataset.selection`.  They are run inside one snapshot, which
is "everything older than `as_of`": the manifest holds that moment, and asking again gives
the same rows.  The dataset is written beside its target and renamed into place whole, in
the transaction that records it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from app.domain import filter_language as filters
from app.domain.dataset.decontamination import Index
from app.domain.dataset.selection import ALL_DEVICES, Spec
from app.export import build, mismatch_rejection, text_facts, working_folder
from app.export import draft as drafts
from app.export.explain import diff, why
from app.export.manifest import Manifest, spec_json, spec_of
from app.export.manifest_contents import describe, stages_of
from app.export.preview import preview
from app.export.problem_chunks import chunks
from app.export.publish import finished, publish, write_documents
from app.export.text_facts import Progress, silent
from app.export.verify import verify
from app.export.working_folder import ExportError
from app.store.dataset import export_attempts, export_matching, export_records
from app.store.postgres.database import Database

__all__ = [
    "ExportError",
    "Manifest",
    "Progress",
    "Spec",
    "diff",
    "export",
    "funnel",
    "preview",
    "reproduce",
    "spec_json",
    "spec_of",
    "verify",
    "why",
]


_BEFORE = {"device": ALL_DEVICES, "include_benchmarks": True}
"""Values for manifests made before exports recorded these settings."""


def export(database: Database, spec: Spec, out: Path, *, progress: Progress = silent) -> Manifest:
    """Write the dataset `out` (which must not exist, or be an empty folder) and record it.

    The same database, selection and service version give the same rows in the same order.
    Interrupted, the same call goes on.  Raises WhereError for the filter, UnknownPluginError for
    the format, ExportError where nothing is left or the target is taken.
    """
    return _export(database, spec, out, None, progress)


def reproduce(
    database: Database, manifest: dict[str, Any], out: Path, *, progress: Progress = silent
) -> tuple[Manifest, list[str]]:
    """Make the rows of a manifest again in the folder `out`; and every way in which they differ.

    Reads evaluations, verdicts and reviews as they were at the manifest's moment, and judges
    nothing again.  ExportError for a manifest of another schema version.
    """
    if manifest.get("schema_version") != Manifest.schema_version:
        raise ExportError(
            f"expected a manifest of schema version {Manifest.schema_version}, got"
            f" {str(manifest)[:60]}"
        )
    spec = spec_of(_BEFORE | manifest["spec"])
    if device := manifest["snapshot"].get("device"):
        spec = replace(spec, device=device)
    past = drafts.Past(
        as_of=datetime.fromisoformat(manifest["snapshot"]["as_of"]),
        policy=manifest["policies"][0],
        detectors=manifest["detectors"],
    )
    made = _export(database, spec, out, past, progress)
    return made, _differences(manifest, made.sealed())


def funnel(database: Database, spec: Spec, *, progress: Progress = silent) -> dict[str, Any]:
    """Rows kept at each stage of the selection, in total and by problem, and the
    number of rows; makes no dataset, but stores verdicts where `spec` has them recomputed.

    `{"kind", "stages": [{"stage", "rows", "rule"}], "rows", "problems": [{"problem_id",
    "problem", "rows", "left"}]}`; `left` lists the counts in the order of the stages.
    Rendering may drop further rows.
    """
    filters.parse(spec.where)
    build.judge_again(database, spec, progress)
    draft = drafts.now(database, spec)
    build.facts(database, draft, progress)
    with export_matching.reading(database) as connection:
        index = Index(held_out=text_facts.held_out(database, spec.held_out))
        only = build.matching(connection, draft)
        chosen = build.selector(
            connection, draft, text_facts.contaminated(database, index, progress), only
        )
        chosen.funnel.total = export_attempts.count(connection, draft.as_of)
        total = chosen.funnel.total if only is None else len(only.evaluation_ids)
        seen = 0
        for table in chunks(build.attempts(connection, draft, chosen, only)):
            chosen.chunk(table)
            seen += len(table)
            progress("selecting", seen, total)
        if only is None:
            chosen.funnel.total = seen
        mismatch_rejection.require(connection, chosen.given.ratios, draft.as_of)
        known = export_records.all_problems(connection)
    rows = sum(chosen.funnel.rows.values())
    problems = [
        {
            "problem_id": problem_id,
            "problem": known[problem_id].problem,
            "rows": chosen.funnel.rows[problem_id],
            "left": chosen.funnel.left(problem_id),
        }
        for problem_id in chosen.funnel.by_problem
    ]
    stages = [
        {"stage": one.stage, "rows": one.rows, "rule": one.rule}
        for one in stages_of(spec, draft, chosen, rows)
    ]
    return {"kind": str(draft.kind), "stages": stages, "rows": rows, "problems": problems}


def _export(
    database: Database, spec: Spec, out: Path, past: drafts.Past | None, progress: Progress
) -> Manifest:
    filters.parse(spec.where)
    drafts.kind_of(spec)
    out = out.absolute()
    with working_folder.folder(out) as root:
        made = finished(root, spec) if past is None else None
        manifest = made or _made(database, root, spec, past, progress)
        publish(database, root, out, manifest)
    return manifest


def _made(
    database: Database, root: Path, spec: Spec, past: drafts.Past | None, progress: Progress
) -> Manifest:
    """The dataset in its unfinished folder, whole."""
    if past is None:
        build.judge_again(database, spec, progress)
    draft = drafts.begin(database, root, spec, past)
    build.facts(database, draft, progress)
    selected = build.run(database, root, draft, progress)
    return write_documents(root, describe(root, draft, selected), selected)


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Differences between a dataset that was made again and its manifest."""
    if before["content_sha256"] == after["content_sha256"]:
        return []
    found = [
        f"{name}: expected {before[name]}, got {after[name]}"
        for name in ("service_version", "rows", "problems", "split", "policies", "detectors")
        if before.get(name) != after[name]
    ]
    stages = {one["stage"]: one["rows"] for one in before["funnel"]}
    found += [
        f"stage {one['stage']}: expected {stages.get(one['stage'])} left, got {one['rows']}"
        for one in after["funnel"]
        if stages.get(one["stage"]) != one["rows"]
    ]
    old = {file["path"]: file["content_sha256"] for file in before["files"]}
    found += [
        f"{file['path']}: other rows than before"
        for file in after["files"]
        if file["content_sha256"] is not None and old.get(file["path"]) != file["content_sha256"]
    ]
    return found or ["content_sha256: other rows than before"]
