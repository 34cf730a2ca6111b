"""`assay judge`: judge stored evaluations again, without a device."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

import click
from rich.progress import track

from app.cli import failures, render, services
from app.judge import judge
from app.settings import Settings
from app.store import evaluations
from app.store.session import Database


@dataclass(kw_only=True)
class Tally:
    """How it went."""

    judged: int = 0
    changes: list[dict[str, str | None]] = field(default_factory=list)
    failures: list[dict[str, str]] = field(default_factory=list)
    """Evaluations that a detector could not judge; they keep the verdict that they have."""


@click.command("judge", short_help="Judge stored evaluations again, without a device.")
@click.argument("evaluation_ids", metavar="[EVALUATION]…", nargs=-1, type=click.UUID)
@click.option("--all", "everything", is_flag=True, help="Every stored evaluation.")
@click.option("--dry-run", is_flag=True, help="Say what would change; store nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts and every change as JSON.")
@click.pass_context
def command(
    ctx: click.Context, evaluation_ids: tuple[UUID, ...], everything: bool, dry_run: bool, as_json: bool
) -> None:
    """Judge stored evaluations again with the detectors of this version.

    A verdict that comes out differently becomes the current one; the old ones stay as history.  What was measured
    does not change.  Where a detector fails, the evaluation keeps its verdict, is named on standard error, and the
    others are judged; then, exit code 3.

    \b
    assay judge --all --dry-run
    assay judge 0199f3c2-…
    """
    settings: Settings = ctx.obj
    if everything == bool(evaluation_ids):
        raise failures.BadInputError("expected either --all or the ids of evaluations")
    tally = Tally()
    with services.client(settings) as client:
        database = client.database
        stored = _wanted(database, evaluation_ids) if evaluation_ids else evaluations.iterate(database)
        for one in track(stored, "judging", console=render.err(), transient=True, disable=not render.err().is_terminal):
            _judge(database, one, tally, dry_run=dry_run)
    if as_json:
        render.json_out(
            {
                "judged": tally.judged,
                "changed": len(tally.changes),
                "failed": len(tally.failures),
                "dry_run": dry_run,
                "changes": tally.changes,
                "failures": tally.failures,
            }
        )
    else:
        _report(tally, dry_run=dry_run)
    if tally.failures:
        ctx.exit(failures.INFRASTRUCTURE)


def _report(tally: Tally, *, dry_run: bool) -> None:
    """The changes by kind, every failure, and the counts."""
    for failure in tally.failures:
        click.echo(f"error: evaluation {failure['evaluation_id']}: {failure['error']}", err=True)
    kinds = Counter((str(change["before"]), str(change["after"])) for change in tally.changes)
    for (before, after), count in sorted(kinds.items()):
        why = " (other findings, or detectors of other versions)" if before == after else ""
        click.echo(f"{before} → {after}: {count}{why}")
    failed = f", {len(tally.failures)} could not be judged" if tally.failures else ""
    changed = "would change" if dry_run else "changed"
    click.echo(f"{tally.judged} judged, {len(tally.changes)} verdicts {changed}{failed}")


def _wanted(database: Database, evaluation_ids: tuple[UUID, ...]) -> list[evaluations.Stored]:
    found = []
    with database.begin() as connection:
        for evaluation_id in evaluation_ids:
            stored = evaluations.get(connection, evaluation_id)
            if stored is None:
                raise failures.BadInputError(f"no evaluation {evaluation_id}")
            found.append(stored)
    return found


def _judge(database: Database, stored: evaluations.Stored, tally: Tally, *, dry_run: bool) -> None:
    """Take one evaluation into account; a verdict that differs from the current one is stored unless `dry_run`."""
    evaluation_id = str(stored.evaluation_id)
    try:
        verdict = judge(stored.subject)
    except Exception as error:  # a detector may be a plug-in: whatever it raises, the others are judged
        if click.get_current_context().find_root().params["debug"]:
            raise
        message = f"{type(error).__name__}: {error} (`assay --debug …` shows where)"
        tally.failures.append({"evaluation_id": evaluation_id, "error": message})
        return
    tally.judged += 1
    with database.begin() as connection:
        before = evaluations.verdict(connection, stored.evaluation_id)
        if before == verdict:
            return
        if not dry_run:
            evaluations.add_verdict(connection, stored.evaluation_id, verdict)
    tally.changes.append(
        {
            "evaluation_id": evaluation_id,
            "before": str(before.label) if before else None,
            "after": str(verdict.label),
        }
    )
