"""EXPORT: the manifest of a dataset in the making, filled from its selection, with the files of
decisions that it names.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from app import formats
from app.domain import benchmarks, ids
from app.domain.credit.rejection import Mismatch
from app.domain.dataset.selection import ALL_DEVICES, CONTEXTS, Kind, Learns, Source, Spec
from app.export.build import Selected
from app.export.draft import Draft
from app.export.explain import UNFIT
from app.export.funnel_stages import BENCHMARKS, Funnel
from app.export.manifest import FileEntry, Manifest, Stage, content_of, spec_json
from app.export.render import tally
from app.export.working_folder import ExportError
from app.export.writers import COMPRESSION, DECISIONS_STEM, ROW_GROUP_ROWS, entry, write_columns
from app.formats import JSONL
from app.store.dataset.export_conditions import JUDGED

_RULES = {
    "benchmarks": (
        "its problem is none of a known benchmark's, by semantic key or family ({benchmarks})"
    ),
    "decontaminated": "its problem is not like one that is held out",
    "distinct": "no near-duplicate of a better solution ({similarity})",
    "mrs": "trainer and rollout engine agree on the answer ({mrs})",
    "prs": "profiling-based rejection sampling ({prs})",
    "context": "earlier answers that the row shows: {context}",
    "turns": "turns {turns}",
    "choice": "best of {best_of}",
    "balance": "as many of a problem and of a family as allowed",
}


def stages_of(spec: Spec, draft: Draft, chosen: Any, rows: int) -> list[Stage]:
    """The funnel, the snapshot first and the rows last."""
    texts = {
        "similarity": (
            f"{spec.similarity}, Jaccard {spec.jaccard:g}"
            if spec.similarity == "minhash"
            else spec.similarity
        ),
        "mrs": "" if spec.mrs is None else _bounds(spec.mrs.mismatch),
        "prs": f"{spec.prs}, τ {spec.prs_tau:g}, s {spec.prs_scale:g}, seed {spec.seed}",
        "turns": spec.turns or "as usual for the kind",
        "best_of": spec.best_of,
        "context": (
            "each passes the selection, for each is learnt"
            if formats.find(spec.format).learns is Learns.EVERY
            else CONTEXTS[spec.history]
        ),
        "benchmarks": ", ".join(one.name for one in benchmarks.known()),
    }
    rules = {one.name: one.rule for one in chosen.given.conditions}
    rules |= {name: rule.format(**texts) for name, rule in _RULES.items() if name in chosen.stages}
    if spec.source is Source.PROBLEMS:
        rules["choice"] = "one row a problem and language"
        if spec.pass_rate is not None:
            low, high = spec.pass_rate
            rules["choice"] += f", pass rate {low:g} to {high:g} in run {spec.rate_run}"
    elif draft.kind is Kind.RL_PROMPTS:
        low, high = spec.pass_rate or (0, 1)
        rules["choice"] = f"one row a problem and backend, pass rate {low:g} to {high:g}"
    elif draft.kind is Kind.PAIRS:
        rules["choice"] = f"of two answers to the same messages: {', '.join(spec.pairs)}"
    counts = chosen.funnel.left()
    snapshot = "attempts that have an evaluation, and answers without code"
    if spec.source is Source.PROBLEMS:
        snapshot = "stored problems, once for each language"
    stages = [Stage(stage="snapshot", rows=chosen.funnel.total, rule=snapshot)]
    named = zip(chosen.stages, counts, strict=True)
    stages += [Stage(stage=name, rows=count, rule=rules[name]) for name, count in named]
    rule = (
        f"rows of kind {draft.kind}: the conversation is whole, holds no secret, quotes nothing"
        " held out"
    )
    return [*stages, Stage(stage="rows", rows=rows, rule=rule)]


def _bounds(mismatch: Mismatch) -> str:
    veto = "no veto" if mismatch.veto is None else f"veto {mismatch.veto:g}"
    return f"{mismatch.level} ratio in [{mismatch.lower:g}, {mismatch.upper:g}], {veto}"


_ADMITTED = {
    BENCHMARKS: "`include_benchmarks` (--include-benchmarks) admits them",
    JUDGED: "`stale: rejudge` (--stale rejudge) or `assay judge --all` judges them again",
}
"""Stage → the setting that lets pass the rows that it drops."""


REASONS_SHOWN = 3
"""Reasons why rows could not be shown that an error lists, the most frequent first."""


def _require_rows(funnel: list[Stage], dropped: Mapping[str, int]) -> None:
    """Raise ExportError that names the stage where the last attempt is dropped, and earlier stages
    that a setting would open.  `dropped`: reason why a row could not be shown → rows.
    """
    before, earlier = None, ""
    for stage in funnel:
        if stage.rows == 0:
            came = (
                "no evaluation is stored" if before is None else f"{before} rows came in, none left"
            )
            hint = f"; {_ADMITTED[stage.stage]}" if stage.stage in _ADMITTED else ""
            if stage is funnel[-1] and dropped:
                most = Counter(dropped).most_common(REASONS_SHOWN)
                hint = ": " + "; ".join(f"{count} × {reason}" for reason, count in most)
            raise ExportError(
                f"nothing to export: stage {stage.stage!r} ({stage.rule}): {came}{hint}{earlier}"
            )
        if before is not None and stage.rows < before and stage.stage in _ADMITTED:
            earlier += (
                f"; before it, stage {stage.stage!r} left {stage.rows} of {before} rows:"
                f" {_ADMITTED[stage.stage]}"
            )
        before = stage.rows


def _hardware(rows: Mapping[str, int]) -> tuple[dict[str, Any], ...]:
    """Devices with their numbers of rows."""
    keys = ("device_class", "device_name", "rows")
    return tuple(
        dict(zip(keys, (*name.split("\t"), count), strict=True)) for name, count in rows.items()
    )


def _snapshot(draft: Draft, selected: Selected) -> dict[str, str]:
    """The moment of the dataset, and the device class that was chosen then."""
    found = {"as_of": draft.as_of.isoformat(), "pg_snapshot_xmin": draft.xmin}
    if draft.spec.source is Source.EVALUATIONS:
        found["device"] = selected.chosen.given.device or ALL_DEVICES
    return found


def describe(root: Path, draft: Draft, selected: Selected) -> Manifest:
    """The manifest; writes the files of decisions.  Raises ExportError where no row is left."""
    parts, spec, given = selected.parts, draft.spec, selected.chosen.given
    rows = sum(sum(part.split.values()) for part in parts)
    stages = stages_of(spec, draft, selected.chosen, rows)
    dropped = Counter(reason for part in parts for _, _, reason in part.dropped)
    _require_rows(stages, dropped)
    files = _tables(root, selected)
    splits = sorted({split for part in parts for split in part.split})
    counted = {
        name: tally(parts, name) for name in ("problems", "families", "hardware", "sanitized")
    }
    return Manifest(
        export_id=str(ids.new_id()),
        created_at=datetime.now(UTC).isoformat(),
        service_version=draft.version,
        format=spec.format,
        kind=str(draft.kind),
        where=spec.where,
        spec=spec_json(spec),
        snapshot=_snapshot(draft, selected),
        stages=tuple(selected.chosen.stages),
        funnel=tuple(stages),
        rows=rows,
        problems=len(counted["problems"]),
        families=len(counted["families"]),
        split={split: sum(part.split.get(split, 0) for part in parts) for split in splits},
        content_sha256=content_of(files),
        dropped_in_rendering=dict(sorted(dropped.items())),
        benchmarks={
            problem_id: str(match) for problem_id, match in sorted((given.benchmarks or {}).items())
        },
        contaminated={
            problem_id: str(match) for problem_id, match in sorted(selected.contaminated.items())
        },
        policies=(draft.policy,),
        detectors=draft.detectors,
        protocols=tuple(tally(parts, "protocols")),
        hardware=_hardware(counted["hardware"]),
        source_sets=tally(parts, "source_sets"),
        models=tally(parts, "models"),
        licences=tally(parts, "licences"),
        prompt_sources=tally(parts, "prompt_sources"),
        sanitized_rows=counted["sanitized"].get("True", 0),
        advantages=None if given.book is None else given.book.summary(),
        mismatch=None if given.ratios is None else given.ratios.summary(),
        writer={
            "pyarrow": pa.__version__,
            "compression": COMPRESSION,
            "row_group_rows": ROW_GROUP_ROWS,
        },
        files=tuple(files),
    )


def _tables(root: Path, selected: Selected) -> list[FileEntry]:
    """Every file that holds rows or decisions; JSON lines become one file a split,
    as their trainers want.
    """
    files = [file for part in selected.parts for file in part.files]
    lines = [file for file in files if file.path.endswith(f".{JSONL}")]
    kept = [file for file in files if file not in lines]
    for split in sorted({Path(file.path).name.rpartition("-")[0] for file in lines}):
        kept.append(
            _joined(root, split, [file for file in lines if file.path.startswith(f"data/{split}-")])
        )
    _write_funnel(root / "funnel.parquet", selected)
    _write_unfit(root / UNFIT, selected)
    decisions = sorted(root.glob(f"{DECISIONS_STEM}-*.parquet"))
    return kept + [
        entry(root, path) for path in (*decisions, root / "funnel.parquet", root / UNFIT)
    ]


def _joined(root: Path, split: str, files: list[FileEntry]) -> FileEntry:
    path = root / "data" / f"{split}.{JSONL}"
    content, rows = hashlib.sha256(), 0
    with path.open("wb") as whole:
        for file in sorted(files, key=lambda one: one.path):
            with (root / file.path).open("rb") as part:
                for line in part:
                    content.update(hashlib.sha256(line[:-1]).hexdigest().encode())
                    whole.write(line)
                    rows += 1
            (root / file.path).unlink()
    return entry(root, path, rows=rows, content_sha256=content.hexdigest())


def _write_unfit(path: Path, selected: Selected) -> None:
    """Write the attempts that were chosen and could not be shown, with the reason of each."""
    with path.open("w", encoding="utf-8") as file:
        for part in selected.parts:
            for evaluation_id, turn_id, reason in part.dropped:
                line = {"evaluation_id": evaluation_id, "turn_id": turn_id, "reason": reason}
                file.write(json.dumps(line) + "\n")


def _write_funnel(path: Path, selected: Selected) -> None:
    """Attempts left after each stage, problem by problem."""
    names = list(selected.chosen.stages)
    funnel: Funnel = selected.chosen.funnel
    lines = [
        {
            "problem_id": problem_id,
            "problem": selected.problems[problem_id].problem,
            "rows": funnel.rows[problem_id],
        }
        | dict(zip(names, funnel.left(problem_id), strict=True))
        for problem_id in funnel.by_problem
    ]
    kinds = [("problem_id", pa.string()), ("problem", pa.string()), ("rows", pa.int64())]
    schema = pa.schema(kinds + [(name, pa.int64()) for name in names])
    write_columns(path, [pa.Table.from_pylist(lines, schema=schema)], schema)
