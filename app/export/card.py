"""EXPORT: the dataset card: content of the rows, their origin, and the limits of their evidence.

The front matter follows the Hub's dataset card specification.  Each value is written
as JSON, which is YAML too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from statistics import median
from textwrap import indent
from typing import Any

import pyarrow as pa

from app.domain import benchmarks, filter_fields
from app.domain import filter_language as filters
from app.domain.dataset.selection import CONTEXTS, Kind, Learns
from app.export import mismatch_rejection, turn_credits
from app.export.manifest import METRICS, Manifest, spec_of
from app.export.writers import DECISIONS_STEM, LINEAGE_STEM

NAME = "README.md"

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_BIGGER = "1M<n<10M"


def _part(card: Callable[[Any], str], about: Any) -> str:
    """A part of the card that only some datasets have, between empty lines."""
    return "" if about is None else f"\n{card(about)}\n"


def render(
    manifest: Manifest,
    *,
    schema: pa.Schema,
    memory_bytes: Mapping[str, int],
    problems: Mapping[str, int],
    learns: Learns,
    usage: str,
) -> str:
    """The card.  `memory_bytes`: split → bytes in Arrow's memory format; `problems`: problem →
    rows; `learns` and `usage` are the format's.
    """
    return f"""\
---
{_front_matter(manifest, schema, memory_bytes)}
---

# Evaluated GPU kernels, format `{manifest.format}`, kind `{manifest.kind}`

{_size(manifest.rows, problems)}, exported by kernel-assay {manifest.service_version} on \
{manifest.created_at}.

{_selection(manifest)}

{_training(manifest, learns, usage)}
{_part(mismatch_rejection.card, manifest.mismatch)}
{_part(turn_credits.card, manifest.advantages)}

## Decontamination

{_decontamination(manifest)}

{_origin(manifest)}

{_measurement(manifest)}

## Split

{", ".join(f"{name}: {rows} rows" for name, rows in manifest.split.items())}. Operator families \
are held out by a hash (seed {manifest.spec["seed"]}, fraction {manifest.spec["val_fraction"]:g}): \
adding data never moves one, and one problem in two shapes stands on one side. Rows stand problem \
by problem: shuffle them.

## Checking

`assay verify DIR` checks every file against `manifest.json`; `{LINEAGE_STEM}-*.parquet` names the \
evaluation, turn and verdict of every row. `assay reproduce manifest.json` makes the same rows \
again from the same database. Hash of the content: `{manifest.content_sha256}`.

## Limits

{_limits(manifest)}
"""


def _selection(manifest: Manifest) -> str:
    """The specification, the filter, and the attempts left after each stage."""
    return f"""\
## Selection

    {json.dumps({name: value for name, value in manifest.spec.items() if value is not None})}

Filter:

{indent(manifest.where.strip() or "everything", "    ")}

| stage | left | keeps |
|---|--:|---|
{_table((stage.stage, stage.rows, stage.rule) for stage in manifest.funnel)}

Stages before the last count attempts, the last counts rows. A suspect or a hack is an answer in \
here only if the filter names `verdict`, or as the worse one of a pair or a label. Speedups of \
hacks are null. `funnel.parquet` has the funnel of every problem, `{DECISIONS_STEM}-*.parquet` \
what became of every attempt that the filter keeps; `assay verify DIR --why EVALUATION` reads \
both."""


def _origin(manifest: Manifest) -> str:
    """Sources, models, licences, prompts and hardware of the rows."""
    return f"""\
## Where the rows come from

| source set | rows |
|---|--:|
{_table(manifest.source_sets.items())}

| model | rows |
|---|--:|
{_table(manifest.models.items())}

| licence of problem / of model output | rows |
|---|--:|
{_table(manifest.licences.items())}

| prompt | rows |
|---|--:|
{_table(manifest.prompt_sources.items())}

`recorded` conversations are as they were exchanged; prompts of a `…template@…` were written by \
this export for candidates that came without one. In {manifest.sanitized_rows} rows characters \
that Parquet cannot hold were replaced by U+FFFD (`sanitized`).

## Hardware

| device class | device | rows |
|---|---|--:|
{_table((seen["device_class"], seen["device_name"], seen["rows"]) for seen in manifest.hardware)}"""


def _measurement(manifest: Manifest) -> str:
    """Definitions of the metrics, and the rules that made them."""
    return f"""\
## Metrics

| name | definition |
|---|---|
{_table(METRICS.items())}

Measurement protocol: {", ".join(manifest.protocols)}. Verdicts: policy \
{", ".join(manifest.policies)}, by \
{", ".join(f"{name}@{version}" for name, version in manifest.detectors.items())}."""


def _size(rows: int, problems: Mapping[str, int]) -> str:
    """Rows and problems in words: of several problems, also how the rows are spread over them."""
    nouns = ("row" if rows == 1 else "rows", "problem" if len(problems) == 1 else "problems")
    found = f"{rows} {nouns[0]} on {len(problems)} {nouns[1]}"
    if len(problems) < 2:
        return found
    least, most = min(problems.values()), max(problems.values())
    return f"{found} ({least} to {most} rows a problem, median {median(problems.values()):g})"


def _front_matter(manifest: Manifest, schema: pa.Schema, memory_bytes: Mapping[str, int]) -> str:
    kernelbench = _holds_benchmarks(manifest)
    splits = {name: rows for name, rows in manifest.split.items() if rows}
    suffix = (
        "jsonl"
        if any(
            file.path.endswith("jsonl") and file.path.startswith("data/") for file in manifest.files
        )
        else "parquet"
    )
    fields: dict[str, object] = {
        "pretty_name": f"Evaluated GPU kernels ({manifest.format})",
        "language": ["en"],
        "license": "unknown",
        "task_categories": ["text-generation"],
        "tags": ["code", "gpu-kernels", "rejection-sampling", "kernel-assay"],
        "annotations_creators": ["machine-generated"],
        "source_datasets": (
            ["extended|ScalingIntelligence/KernelBench"] if kernelbench else ["original"]
        ),
        "size_categories": [
            next((name for limit, name in _SIZES if manifest.rows < limit), _BIGGER)
        ],
        "configs": [
            {
                "config_name": manifest.format,
                "default": True,
                # `datasets` keys its cache by this front matter and the folder's
                # name, not by the files' times.
                "description": f"content {manifest.content_sha256}",
                "data_files": [
                    {
                        "split": name,
                        "path": (
                            f"data/{name}.jsonl" if suffix == "jsonl" else f"data/{name}-*.parquet"
                        ),
                    }
                    for name in splits
                ],
            }
        ],
        "dataset_info": [
            {
                "config_name": manifest.format,
                "features": [{"name": column.name} | _feature(column.type) for column in schema],
                "splits": [
                    {"name": name, "num_bytes": memory_bytes[name], "num_examples": rows}
                    for name, rows in splits.items()
                ],
                "download_size": sum(
                    file.bytes for file in manifest.files if file.path.startswith("data/")
                ),
                "dataset_size": sum(memory_bytes.values()),
            }
        ],
    }
    return "\n".join(f"{name}: {json.dumps(value)}" for name, value in fields.items())


def _feature(kind: pa.DataType) -> dict[str, Any]:
    """A column type as the Hub writes it."""
    if pa.types.is_list(kind):
        inner = _feature(kind.value_type)
        return {"list": inner.get("struct", inner.get("dtype"))}
    if pa.types.is_struct(kind):
        return {"struct": [{"name": part.name} | _feature(part.type) for part in kind.fields]}
    return {"dtype": {"double": "float64"}.get(str(kind), str(kind))}


_LOSS = {
    Learns.ANSWER: "The last answer of a row bears loss, and nothing else does.",
    Learns.MARKED: "The answers that carry the row's mark bear loss, and nothing else does.",
    Learns.EVERY: "Every answer of a row bears loss, and each of them passes the selection.",
}


def _training(manifest: Manifest, learns: Learns, usage: str) -> str:
    """Places of the loss, and the other answers that a row shows; empty for rows
    without answers to learn.
    """
    kind = Kind(manifest.kind)
    if not kind.shows_answer or kind is Kind.REWARDS:
        return ""
    lines = [
        _LOSS[learns] if kind is not Kind.PAIRS else "The two last answers of a row are compared.",
        usage,
    ]
    if kind.shows_history and learns is not Learns.EVERY:
        context = spec_of(manifest.spec).history
        lines.append(
            f"Earlier answers in a row's history (`context`: `{context}`): {CONTEXTS[context]}."
            " The same holds for answers of a collection that a prompt quotes; other quotations are"
            " not looked at. A trainer that puts loss on every assistant message (prime-rl does)"
            " learns these, too: give it `verl_sft`."
        )
    return "## Training\n\n" + " ".join(filter(None, lines))


def _decontamination(manifest: Manifest) -> str:
    return f"{_benchmarks(manifest)}\n\n{_held_out(manifest)}"


def _holds_benchmarks(manifest: Manifest) -> bool:
    """Test whether problems of a known benchmark may be among the rows, in a set of any name."""
    return "kernelbench" in manifest.source_sets or (
        "benchmarks" not in manifest.stages and bool(manifest.benchmarks)
    )


def _benchmarks(manifest: Manifest) -> str:
    names = ", ".join(one.name for one in benchmarks.known())
    if manifest.spec["include_benchmarks"]:
        return f"Problems of {names} were asked for (`--include-benchmarks`) and are not held out."
    if "benchmarks" not in manifest.stages:
        return "A report, not training data: problems of benchmarks are in it."
    rules = Counter(line.partition(" ")[0] for line in manifest.benchmarks.values())
    counted = ", ".join(f"{count} by {rule}" for rule, count in sorted(rules.items())) or "none"
    lines = "\n".join(
        f"- problem {problem_id}: {why}" for problem_id, why in manifest.benchmarks.items()
    )
    return (
        f"Problems that are one of {names}'s are held out whatever set they came with:"
        f" {len(manifest.benchmarks)} of this database ({counted}):\n\n{lines or '- none'}"
    )


def _held_out(manifest: Manifest) -> str:
    held_out = manifest.spec["held_out"]
    if not held_out:
        return "No further list was held out."
    lines = "\n".join(
        f"- problem {problem_id}: {why}" for problem_id, why in manifest.contaminated.items()
    )
    return (
        f"Held against {', '.join(held_out)}; {len(manifest.contaminated)} problems are"
        f" out:\n\n{lines or '- none'}"
    )


def _limits(manifest: Manifest) -> str:
    spec = manifest.spec
    limits = [
        "Times hold for the devices above and for the shapes of each problem's inputs.",
        (
            "A clean verdict means that the detectors above found nothing; `reviewed` says where a"
            " person has looked."
        ),
        "Secrets were looked for by the form of known tokens; personal data was not looked for.",
    ]
    limits += _admitted(manifest)
    if any("unknown" in name for name in manifest.licences):
        limits.append("Licences marked `unknown` were not recorded: find out before you publish.")
    if spec["similarity"] == "none":
        limits.append("Near-duplicates were not removed.")
    if spec["max_tokens"] is None:
        limits.append("Token counts were not measured: no row was dropped or cut for its length.")
    if _holds_benchmarks(manifest):
        limits.append(
            "Contains KernelBench problems: a model trained on it must not be evaluated on"
            " KernelBench."
        )
    if any(seen["device_class"] == "cpu" for seen in manifest.hardware):
        limits.append(
            "Rows of device class `cpu` say nothing about speed on a GPU: Triton ran in its"
            " interpreter."
        )
    return "\n".join(f"- {limit}" for limit in limits)


def _admitted(manifest: Manifest) -> list[str]:
    """Answers that are learnt because the filter names a field that stages go by otherwise."""
    kind = Kind(manifest.kind)
    if not kind.shows_answer or kind.takes_all:
        return []
    named = filters.names(filters.parse(manifest.where))
    found = []
    if by := sorted(named & filter_fields.ON_OUTCOME):
        found.append(f"The filter names {_quoted(by)}: wrong answers may bear loss.")
    if "verdict" in named:
        found.append("The filter names `verdict`: suspects or hacks may bear loss.")
    return found


def _quoted(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _table(rows: Any) -> str:
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows
    )
