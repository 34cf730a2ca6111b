"""`assay advantages`: credit of stored turns by a policy-gradient method."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

from app.cli import credit_options, errors, output, services
from app.cli.output_path import OutputPath
from app.domain import credit
from app.domain.credit import Credit
from app.export import turn_credits
from app.export.turn_credits import SCHEMA, Book
from app.export.writers import LINEAGE_STEM, rows_of
from app.settings import Settings
from app.store.figures.turn_rewards import StoredTurn


@click.command("advantages")
@click.option(
    "--method", default="trloo", show_default=True, help="Advantage estimator; see --methods."
)
@click.option("--methods", is_flag=True, help="List the methods with formula and source.")
@credit_options.options()
@click.option("--turns", "list_turns", is_flag=True, help="List every turn, not only prompts.")
@click.option(
    "--out",
    "file",
    type=OutputPath(),
    help="Write every turn to FILE.parquet or FILE.jsonl.",
)
@click.option(
    "--dataset",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help=(
        "With --out: write one line per turn of this dataset's rows, with split and index, in the"
        " rows' order."
    ),
)
@output.json_option("Print method, options and every turn as JSON.")
@click.pass_obj
def command(
    settings: Settings,
    /,
    method: str,
    methods: bool,
    list_turns: bool,
    file: Path | None,
    dataset: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Print advantages of stored turns: one group per run, problem and backend.

    A turn has no reward if its job failed, is not over, or could not be measured; it leaves its
    group before any baseline.  An answer without code counts like one that does not compile.
    Filters follow Dr. Kernel's order: void turns, uniform prompts, MRS, PRS; then the advantages.
    `assay export --advantages` writes the same into datasets.

    \b
    assay advantages --run grpo-1
    assay advantages --run grpo-1 --method grpo --gamma 0.4 --turns
    assay advantages --run grpo-1 --prs --json | jq '.turns[] | select(.dropped == null)'
    assay advantages --run grpo-1 --out advantages.parquet --dataset rl
    """
    if methods:
        _print_methods()
        return
    if file is not None and file.suffix not in _WRITERS:
        raise errors.BadInputError(
            f"--out: expected a name ending in {' or '.join(_WRITERS)}, got {file}"
        )
    if dataset is not None and file is None:
        raise errors.BadInputError("--dataset: expected --out with it, got none")
    declared = credit_options.declared(method, options, settings.reward)
    with services.client(settings) as client, client.database.snapshot() as connection:
        book = turn_credits.book(connection, declared)
    if file is not None:
        listed = book.rows()
        file.parent.mkdir(parents=True, exist_ok=True)
        written = listed if dataset is None else _of_dataset(listed, dataset)
        with output.draft_of(file) as draft:
            _WRITERS[file.suffix](written, draft)
    if as_json:
        output.json_out(_json(book))
    else:
        output.table_out(_turn_table(book) if list_turns else _prompt_table(book))


def _json(book: Book) -> dict[str, Any]:
    summary = book.summary()
    told = {name: summary[name] for name in ("method", "about", "reward", "dropped")}
    return told | {"recipe": asdict(book.declared.recipe), "turns": book.rows()}


def _of_dataset(rows: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """One row per line of the dataset's lineage, in its order; figures are null for
    turns of other runs.
    """
    by_turn = {row["turn_id"]: row for row in rows}
    unknown: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    found = []
    for path in sorted(folder.glob(f"{LINEAGE_STEM}-*.parquet")):
        for line in rows_of(path):
            row = by_turn.get(line["turn_id"], unknown | {"turn_id": line["turn_id"]})
            found.append(
                row | {"split": line["split"], "index": line["index"], "role": line["role"]}
            )
    if not any(row["trajectory_id"] for row in found):
        raise errors.BadInputError(
            f"{folder}: expected a lineage that names turns of these runs, got none"
        )
    return found


_IN_DATASET = [("split", pa.string()), ("index", pa.int64()), ("role", pa.string())]


def _parquet(rows: list[dict[str, Any]], file: Path) -> None:
    schema = pa.schema([*_IN_DATASET, *SCHEMA]) if rows and "split" in rows[0] else SCHEMA
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), file)


def _jsonl(rows: list[dict[str, Any]], file: Path) -> None:
    file.write_text("".join(json.dumps(row, allow_nan=False) + "\n" for row in rows))


_WRITERS: Mapping[str, Callable[[list[dict[str, Any]], Path], None]] = {
    ".parquet": _parquet,
    ".jsonl": _jsonl,
}


def _turn_table(book: Book) -> Table:
    table = Table("problem", "trajectory", "turn", box=None, pad_edge=False, header_style="dim")
    for name in ("reward", "score", "advantage"):
        table.add_column(name, justify="right")
    table.add_column("left out")
    for where, one in zip(book.stored, book.results, strict=True):
        figures = [_shown(value) for value in (one.turn.reward, one.score, one.advantage)]
        table.add_row(
            output.safe(where.problem),
            where.trajectory_id,
            str(where.turn),
            *figures,
            str(one.dropped or ""),
        )
    return table


def _prompt_table(book: Book) -> Table:
    table = Table("run", "problem", box=None, pad_edge=False, header_style="dim")
    for name in ("trajectories", "turns", "mean reward", "mean |advantage|"):
        table.add_column(name, justify="right")
    table.add_column("left out")
    groups: dict[tuple[str, str, str], list[tuple[StoredTurn, Credit]]] = {}
    for where, one in zip(book.stored, book.results, strict=True):
        groups.setdefault(turn_credits.group(where), []).append((where, one))
    for members in groups.values():
        dropped = Counter(str(one.dropped) for _, one in members if one.dropped)
        used = [
            abs(one.advantage)
            for _, one in members
            if one.dropped is None and one.advantage is not None
        ]
        rewards = [one.turn.reward for _, one in members if one.turn.reward is not None]
        table.add_row(
            output.safe(members[0][0].run),
            output.safe(members[0][0].problem),
            str(len({where.trajectory_id for where, _ in members})),
            str(len(members)),
            _shown(fmean(rewards) if rewards else None),
            _shown(fmean(used) if used else None),
            ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items())),
        )
    return table


def _print_methods() -> None:
    table = Table(
        "method", "group", "score", "advantage", box=None, pad_edge=False, header_style="dim"
    )
    for name, method in credit.METHODS.items():
        table.add_row(name, str(method.grouping), str(method.score), method.about)
    output.table_out(table)


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
