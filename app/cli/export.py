"""`assay export`: a dataset of evaluations."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.table import Table

from app import export, formats
from app.cli import credit_options, errors, output, services, where_option
from app.cli.group import Renamed
from app.cli.output_path import OutputPath
from app.domain import filter_fields, filter_tokens
from app.domain import filter_language as filters
from app.domain.backend import BACKENDS
from app.domain.dataset.inapplicable_settings import unused
from app.domain.dataset.profiling_rejection import Coverage, Draw, Ramp, Ratio
from app.domain.dataset.selection import (
    BestOf,
    Context,
    Key,
    Kind,
    PairOf,
    Reasoning,
    Source,
    Spec,
    Stale,
    Turns,
)
from app.domain.source.near_duplicates import Similarity
from app.export import draft
from app.settings import Settings


def _print_fields(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    for name, field in filter_fields.FIELDS.items():
        click.echo(
            f"{name:<18}{field.kind:<9}{field.doc}"
            + (f": {' '.join(field.choices)}" if field.choices else "")
        )
    ctx.exit()


def _print_formats(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    for name, each in sorted(formats.known().items()):
        click.echo(f"{name:<25}{' '.join(each.kinds):<34}{each.about}")
    ctx.exit()


def _choice(kind: Any) -> click.Choice[str]:
    return click.Choice([str(each) for each in kind])


@click.command("export")
@click.option(
    "--out",
    type=OutputPath(folder=True),
    help="Folder to make; it must not exist. Not read with --dry-run.",
)
@click.option("--format", "format", help="Format, by default trl_sft: see --formats.")
@click.option("--kind", type=_choice(Kind), help="Kind of row; by default the format's.")
@click.option(
    "--from",
    "source",
    type=_choice(Source),
    help="evaluations (default), or problems: RL prompts, tried or not.",
)
@click.option(
    "--language",
    "backends",
    multiple=True,
    type=click.Choice(list(BACKENDS)),
    help=(
        "With rows of problems: language that prompts ask for, by default triton; may be repeated."
    ),
)
@click.option(
    "--family",
    "families",
    multiple=True,
    metavar="KEY",
    help="With rows of problems: only these families.",
)
@click.option(
    "--rate-run",
    metavar="RUN",
    help="With rows of problems: the run whose pass rate --pass-rate limits.",
)
@click.option(
    "--where",
    callback=where_option.readable,
    help="Filter of evaluations (names: --fields); all without it.",
)
@click.option(
    "--spec",
    "spec_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Selection as JSON, or a manifest.json; options override it.",
)
@click.option(
    "--gpu",
    "--device",
    "device",
    cls=Renamed,
    metavar="CLASS|all",
    help=(
        "Device class to take evaluations of; by default the GPU class with most of them. With"
        " `all`, rows of two classes, backends or protocols are never compared, ranked or paired."
    ),
)
@click.option("--policy", help="Policy of the verdicts, `name` or `name@version`.")
@click.option(
    "--stale",
    type=_choice(Stale),
    help="Verdicts of other detectors or policies: refuse (default), or rejudge and store all.",
)
@click.option(
    "--reviewed-above", type=float, help="Above this measured speedup, only reviewed evaluations."
)
@click.option("--min-speedup", type=float, help="Least low end of the speedup's 95 % interval.")
@click.option("--max-speedup", type=float, help="Greatest measured speedup that is believed.")
@click.option(
    "--min-coverage",
    type=float,
    help="Least coverage: share of GPU time in the candidate's own kernels.",
)
@click.option(
    "--extraction/--no-extraction",
    default=None,
    help="Whether answers must end in the evaluated code.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    help="Longest row (bytes of UTF-8 over 4); dropped, never cut.",
)
@click.option(
    "--tokenizer",
    metavar="file:PATH",
    help="Tokenizer for --max-tokens: a tokenizer.json of the package tokenizers.",
)
@click.option(
    "--held-out",
    multiple=True,
    metavar="SET|FILE",
    help="Decontaminate against a source set or a file of JSON lines; may be repeated.",
)
@click.option(
    "--include-benchmarks",
    is_flag=True,
    default=None,
    help="Let KernelBench's problems, whatever their name, into training data; else held out.",
)
@click.option(
    "--similarity", type=_choice(Similarity), help="Near-duplicates to drop; by default minhash."
)
@click.option(
    "--jaccard",
    type=float,
    help="Similarity threshold of minhash; by default 0.8.",
)
@credit_options.mismatch_options(
    "",
    "Drop answers on which trainer and rollout engine disagree, by the trainer's log probabilities"
    " in this file.",
)
@click.option("--prs", type=_choice(Ramp), help="Profiling-based rejection sampling.")
@click.option(
    "--prs-draw", type=_choice(Draw), help="One draw per turn (default) or per trajectory."
)
@click.option("--prs-tau", type=float, help="Coverage below which no turn stays; by default 0.3.")
@click.option(
    "--prs-scale",
    type=float,
    help="Width of the soft ramp; by default 0.1.",
)
@click.option(
    "--prs-ratio",
    type=_choice(Ratio),
    help="A turn's own coverage, or the geometric mean of its trajectory.",
)
@click.option(
    "--prs-coverage", type=_choice(Coverage), help="Coverage by time (default) or by launches."
)
@click.option(
    "--prs-speedup", type=float, help="From this speedup on a turn stays, whatever its coverage."
)
@click.option(
    "--context", type=_choice(Context), help="Earlier answers that rows may show; by default clean."
)
@click.option("--turns", type=_choice(Turns), help="Which turns of a trajectory.")
@click.option(
    "--delta", type=float, help="With --turns improving: least gain beyond the noise, 0.05 for 5 %."
)
@click.option("--min-return", type=float, help="With --turns return_to_go: least return.")
@click.option(
    "--gamma",
    type=float,
    help="Discount of returns; by default 0.4 of Kevin's score, 1 of others.",
)
@click.option("--best-of", type=_choice(BestOf), help="Which samples of a problem.")
@click.option(
    "--k", type=click.IntRange(1), help="With --best-of top_k or epsilon_best: number of samples."
)
@click.option("--key", type=_choice(Key), help="Sort key of samples; by default speedup_ci_low.")
@click.option(
    "--threshold", type=float, help="With --best-of threshold: least value of the sort key."
)
@click.option(
    "--epsilon",
    type=float,
    help="With --best-of epsilon_best: distance from the best; by default 0.05.",
)
@click.option(
    "--pass-rate",
    nargs=2,
    type=float,
    default=None,
    help="Pass rates of rl_prompts: LOW HIGH.",
)
@click.option(
    "--pairs", multiple=True, type=_choice(PairOf), help="Sorts of pairs; all if left out."
)
@click.option(
    "--pairs-per-chosen",
    type=click.IntRange(1),
    help="Pairs of each sort per chosen answer; by default 1.",
)
@click.option(
    "--max-per-problem", type=click.IntRange(1), help="Most rows of a problem, the best ones."
)
@click.option(
    "--max-per-family", type=click.IntRange(1), help="Most rows of a family of equivalent problems."
)
@click.option("--balance", type=float, help="Keep n^(1-BALANCE) of n rows of a problem.")
@click.option(
    "--reasoning", type=_choice(Reasoning), help="Reasoning shown in rows; by default keep."
)
@click.option(
    "--advantages",
    metavar="METHOD",
    help="Columns with advantages of turns: see assay advantages --methods.",
)
@credit_options.options(credit_options.EXPORTED)
@click.option("--seed", type=int, help="Seed of the split and of every draw; by default 0.")
@click.option(
    "--val-fraction",
    type=float,
    help="Share of operator families held out; by default 0.05.",
)
@click.option("--dry-run", is_flag=True, help="Print the funnel; make no dataset.")
@click.option(
    "--fields",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_fields,
    help="List the names for --where.",
)
@click.option(
    "--formats",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_formats,
    help="List the formats, their kinds of rows and their readers.",
)
@output.json_option("Print the manifest.")
@click.pass_obj
def command(
    settings: Settings,
    /,
    out: Path | None,
    spec_path: Path | None,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write a dataset: rows, lineage, manifest.json and a dataset card.

    Unless the filter says otherwise, only correct and clean evaluations leave.  The same database
    and the same arguments give the same rows in the same order; interrupted, the same command goes
    on; `assay verify` proves the contents of a folder, `assay verify --why` says why an evaluation
    is in it or not, `assay reproduce` makes it again.

    \b
    assay export --out sft --min-speedup 1.1 --turns improving
    assay export --out dpo --format trl_preference
    assay export --out rl --format verl_rl --pass-rate 0.05 0.9 --held-out kernelbench
    assay export --out untried --format verl_rl --from problems --where "source_set = drkernel_rl"
    assay export --formats
    """
    if out is None and not dry_run:
        raise click.UsageError("Missing option '--out': the folder to make, or --dry-run.")
    declared = credit_options.asked(options.pop("advantages"), options, settings.reward)
    mismatch = credit_options.mismatch_of(options)
    options["advantages"], options["mrs"] = (
        None if one is None else msgspec.to_builtins(one) for one in (declared, mismatch)
    )
    spec = selection(spec_path, options)
    with services.client(settings) as client, Watched("exporting") as watched:
        try:
            if out is None or dry_run:
                found = export.funnel(client.database, spec, progress=watched)
            else:
                manifest = export.export(client.database, spec, out, progress=watched)
        except export.ExportError as error:
            raise errors.BadInputError(str(error)) from error
    if dry_run:
        output.json_out(found) if as_json else output.table_out(_table(found["stages"]))
    elif as_json:
        output.json_out(manifest.sealed())
    else:
        output.table_out(funnel(manifest))
        click.echo(f"{manifest.rows} rows of {manifest.problems} problems in {out}")


def selection(path: Path | None, options: dict[str, Any]) -> Spec:
    """The spec of a file, overridden by options.  BadInputError for contradictions."""
    given = {name: value for name, value in options.items() if value is not None and value != ()}
    try:
        spec = Spec() if path is None else _stored_spec(path)
        known = {field.name for field in fields(Spec)}
        assert given.keys() <= known
        declared = export.spec_of(export.spec_json(replace(spec)) | given)
        filters.parse(declared.where)
        for name, reader in unused(declared, draft.kind_of(declared), given).items():
            raise ValueError(f"--{name.replace('_', '-')}: expected {reader} with it, got none")
    except filter_tokens.WhereError as error:
        raise errors.BadInputError(f"where: {error}") from error
    except (ValueError, msgspec.DecodeError) as error:
        raise errors.BadInputError(str(error)) from error
    return declared


def _stored_spec(path: Path) -> Spec:
    """The selection in a file.  Raises ValueError that names the file."""
    try:
        return export.spec_of(_spec_in(msgspec.json.decode(path.read_bytes())))
    except (ValueError, msgspec.DecodeError) as error:
        raise ValueError(f"{path}: {error}") from error


def _spec_in(found: Any) -> dict[str, Any]:
    """The selection that a file's JSON is, or that the manifest in it holds.
    ValueError for anything else.
    """
    if isinstance(found, dict):
        spec = found["spec"] if "manifest_sha256" in found else found
        if isinstance(spec, dict):
            return spec
    raise ValueError(
        f"spec: expected a selection or a manifest as a JSON object, got {str(found)[:60]}"
    )


class Watched:
    """A progress bar that follows the stages of an export."""

    def __init__(self, label: str) -> None:
        self._bar = output.progress(label)
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Watched:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._bar.__exit__(*error)

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show how far a stage is."""
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(stage, total=total or None)
        self._bar.update(self._tasks[stage], completed=done, total=total or None, description=stage)


def funnel(manifest: export.Manifest) -> Table:
    """Counts left after each stage."""
    return _table([vars(stage) for stage in manifest.funnel])


def _table(stages: list[dict[str, Any]]) -> Table:
    table = Table("stage", "left", "keeps", box=None, pad_edge=False, header_style="dim")
    table.columns[1].justify = "right"
    for stage in stages:
        table.add_row(stage["stage"], str(stage["rows"]), output.safe(stage["rule"]))
    return table
