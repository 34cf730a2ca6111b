"""`assay mismatch`: distance of trainer and rollout engine on stored turns, and the
turns that rejection would drop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from app.cli import output, services
from app.cli.errors import BadInputError
from app.cli.number_range import NumberRange
from app.domain.credit import Declared, Turn, mismatch
from app.domain.credit.mismatch import BOUNDS, Pair, Rejected
from app.domain.credit.rejection import Level
from app.domain.request import MissingError
from app.export import trainer_logprobs, turn_credits
from app.settings import Settings
from app.store.collection import lifecycle, logprobs
from app.store.collection.logprobs import Sampled
from app.store.figures import turn_rewards
from app.store.postgres.database import Connection

PROCESSED = "processed"
"""Mode of log probabilities of the distribution that was sampled from."""


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """Calls of a run with both sides."""

    run: str
    calls: list[Sampled]
    pairs: list[Pair]
    turns: list[Turn]
    unmatched: int
    """Calls with log probabilities that the trainer's file does not have."""
    silent: int
    """Answered calls for which the server gave no log probabilities."""

    @property
    def modes(self) -> dict[str, int]:
        """Mode of the stored log probabilities → calls."""
        return dict(sorted(Counter(call.mode or "not known" for call in self.calls).items()))


@click.command(
    "mismatch",
)
@click.argument("name", metavar="RUN|COLLECTION")
@click.option(
    "--trainer",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON lines with the trainer's log probabilities of the sampled tokens.",
)
@click.option(
    "--level",
    type=click.Choice([str(one) for one in Level]),
    default=str(Level.GEOMETRIC),
    show_default=True,
    help="Unit that has one ratio, compared with the bounds.",
)
@click.option(
    "--bounds",
    nargs=2,
    type=float,
    multiple=True,
    metavar="LOWER UPPER",
    help=(
        "Bounds of π_train / π_rollout; may be repeated; by default six pairs around Dr. Kernel's"
        " 0.999 1.001."
    ),
)
@click.option(
    "--veto",
    type=NumberRange(0, min_open=True),
    default=1e-4,
    show_default=True,
    help="Least ratio of a token; a turn with one below it is dropped.",
)
@click.option("--reward", "reward_name", help="Reward of a turn; by default ASSAY_REWARD.")
@click.option("--partial", is_flag=True, help="Leave out calls that the file does not have.")
@output.json_option("Print figures and outcomes as JSON.")
@click.pass_obj
def command(
    settings: Settings,
    /,
    name: str,
    file: Path | None,
    level: str,
    bounds: tuple[tuple[float, float], ...],
    veto: float,
    reward_name: str | None,
    partial: bool,
    as_json: bool,
) -> None:
    """Compare the trainer's log probabilities with the stored ones of the rollout engine.

    Rejection (MRS, Dr. Kernel eq. 6) keeps a unit with its ratio within the bounds; the table says
    how many turns each pair of bounds drops, and whether good kernels are among them: `credited`
    are correct, compiled and no hack.

    FILE has a line per call, `{"model_call_id": …, "logprobs": […]}`, or `turn_id`, or
    `trajectory_id` and `turn` in its place; or rows of `assay collect tokens` with
    `train_logprobs`, one per token of `ids`.

    \b
    assay collect tokens softmax --out rows.jsonl     # ids for the trainer's forward pass
    assay mismatch softmax --trainer scored.jsonl
    assay mismatch softmax --trainer scored.jsonl --level turn_geo --bounds 0.99 1.01 --json
    """
    declared = Declared(reward=reward_name or settings.reward)
    with services.client(settings) as client, client.database.snapshot() as connection:
        found = _compared(connection, name, file, declared, partial=partial)
    outcomes = mismatch.survey(found.turns, level=Level(level), bounds=bounds or BOUNDS, veto=veto)
    figures = mismatch.metrics(found.pairs)
    if as_json:
        output.json_out(_json(found, figures, outcomes))
        return
    if set(found.modes) != {PROCESSED}:
        modes = ", ".join(f"{mode} {count}" for mode, count in found.modes.items())
        click.echo(
            f"log probabilities of the rollout engine: {modes} calls; raw ones ignore the"
            " temperature",
            err=True,
        )
    output.table_out(_metrics_table(found, figures))
    output.table_out(_outcome_table(outcomes))


def _compared(
    connection: Connection, name: str, file: Path | None, declared: Declared, *, partial: bool
) -> ComparedRun:
    run = _run(connection, name)
    calls = list(logprobs.of_run(connection, run))
    sampled = [call for call in calls if call.logprobs is not None]
    if not sampled:
        raise BadInputError(
            f"run {run}: expected calls with log probabilities of the rollout engine, got none of"
            f" {len(calls)} calls (sampling.token_ids asks for them, of servers that give them)"
        )
    if file is None:
        tokens = sum(len(call.logprobs or ()) for call in sampled)
        raise BadInputError(
            f"run {run}: only the rollout engine's side is stored: {tokens} tokens of"
            f" {len(sampled)} calls; expected the trainer's in a file (--trainer), got none"
        )
    given = trainer_logprobs.read(file)
    both = [
        (call, values)
        for call in sampled
        if (values := trainer_logprobs.of(given, call)) is not None
    ]
    missing = len(sampled) - len(both)
    if not both or (missing and not partial):
        raise BadInputError(
            f"{file}: expected {len(sampled)} calls of run {run}, got {len(both)} (or --partial)"
        )
    pairs = [Pair(train=values, rollout=call.logprobs or []) for call, values in both]
    turns = {one.turn_id: one for one in turn_rewards.of_runs(connection, [run])}
    rewarded = [turn_credits.turn_of(turns[call.turn_id], declared.reward) for call, _ in both]
    return ComparedRun(
        run=run,
        calls=[call for call, _ in both],
        pairs=pairs,
        turns=[
            replace(turn, ratios=pair.ratios, tokens=pair.ratios.tokens)
            for turn, pair in zip(rewarded, pairs, strict=True)
        ],
        unmatched=missing,
        silent=len(calls) - len(sampled),
    )


def _run(connection: Connection, name: str) -> str:
    if not turn_rewards.missing(connection, [name]):
        return name
    try:
        return lifecycle.find(connection, name).spec.name
    except MissingError:
        raise BadInputError(
            f"expected the name of a run, or the name or id of a collection, got {name!r}"
        ) from None


def _json(
    found: ComparedRun, figures: dict[str, float], outcomes: Sequence[Rejected]
) -> dict[str, Any]:
    return {
        "run": found.run,
        "calls": len(found.calls),
        "tokens": sum(turn.tokens for turn in found.turns),
        "credited": sum(turn.correct for turn in found.turns),
        "not_in_file": found.unmatched,
        "without_logprobs": found.silent,
        "logprobs_mode": found.modes,
        "metrics": figures,
        "rejection": [_outcome(one) for one in outcomes],
    }


def _outcome(one: Rejected) -> dict[str, Any]:
    found = asdict(one)
    bounds: dict[str, Any] = found.pop("mismatch")
    return bounds | found


def _metrics_table(found: ComparedRun, figures: dict[str, float]) -> Table:
    tokens = sum(turn.tokens for turn in found.turns)
    counts = f"{len(found.turns)} turns, {tokens} tokens"
    if found.unmatched or found.silent:
        counts += (
            f"; left out: {found.unmatched} calls not in the file, {found.silent} without log"
            " probabilities"
        )
    table = Table("metric", counts, box=None, pad_edge=False, header_style="dim")
    for name, value in figures.items():
        table.add_row(name, f"{value:.6g}")
    return table


def _outcome_table(outcomes: Sequence[Rejected]) -> Table:
    table = Table("bounds", box=None, pad_edge=False, header_style="dim")
    columns = (
        "trajectories",
        "turns",
        "veto",
        "turns dropped",
        "tokens dropped",
        "credited of dropped",
        "credited of kept",
        "credited lost",
        "reward of dropped",
        "reward of kept",
    )
    for name in columns:
        table.add_column(name, justify="right")
    for one in outcomes:
        shares = (
            one.share,
            one.token_share,
            one.credited_of_dropped,
            one.credited_of_kept,
            one.credited_lost,
        )
        table.add_row(
            f"{one.mismatch.lower:g} – {one.mismatch.upper:g}",
            str(one.trajectories),
            str(one.turns),
            str(one.vetoed),
            *("–" if share is None else f"{share:.1%}" for share in shares),
            *(
                "–" if mean is None else f"{mean:.3f}"
                for mean in (one.reward_of_dropped, one.reward_of_kept)
            ),
        )
    return table
