"""`assay judge`: judge stored evaluations again, without a device."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

import click
from rich.progress import track
from rich.table import Table
from rich.text import Text

from app.cli import errors, output, services
from app.domain import policy as policies
from app.domain.policy import Policy
from app.domain.verdict import Label, Verdict
from app.rejudging import JudgingError, rejudge
from app.settings import Settings
from app.store.evaluation import evaluations
from app.store.postgres.database import Database


@dataclass(frozen=True, kw_only=True)
class Change:
    """A verdict that came out differently."""

    evaluation_id: UUID
    before: Label | None
    after: Label
    detectors: dict[str, tuple[Label | None, Label | None]]
    """Detectors with findings that weigh otherwise: before, after; None where it found nothing."""

    def as_json(self) -> dict[str, object]:
        """The change as JSON."""
        detectors = [
            {"detector": name, "before": old, "after": new}
            for name, (old, new) in self.detectors.items()
        ]
        return {
            "evaluation_id": str(self.evaluation_id),
            "before": self.before,
            "after": self.after,
            "detectors": detectors,
        }


@dataclass(kw_only=True)
class Tally:
    """Counts of changes."""

    judged: int = 0
    policies: Counter[str] = field(default_factory=Counter)
    changes: list[Change] = field(default_factory=list)
    failures: list[dict[str, str]] = field(default_factory=list)
    """Evaluations that a detector could not judge; they keep the verdict that they have."""
    stale: set[UUID] = field(default_factory=set)
    """Datasets with a row that has another label now."""

    @property
    def relabelled(self) -> int:
        """Number of changes of the label itself, not of versions or evidence alone."""
        return sum(change.before != change.after for change in self.changes)

    def kinds(self) -> Counter[tuple[str, str, str]]:
        """Count of each change of a verdict together with each change of a detector's finding."""
        return Counter(
            (_arrow(change.before, change.after), name, _arrow(*labels) if name else "")
            for change in self.changes
            for name, labels in (change.detectors or {"": (None, None)}).items()
        )


@click.command("judge")
@click.argument("evaluation_ids", metavar="[EVALUATION]…", nargs=-1, type=click.UUID)
@click.option("--all", "everything", is_flag=True, help="Every stored evaluation.")
@click.option(
    "--policy",
    "policy_name",
    type=click.Choice(list(policies.POLICIES)),
    help="Policy of the verdicts.  Left out: each evaluation's last one.",
)
@click.option("--dry-run", is_flag=True, help="Print the changes; store nothing.")
@output.json_option("Print the counts and every change as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    evaluation_ids: tuple[UUID, ...],
    everything: bool,
    policy_name: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Judge stored evaluations again with the detectors of this version.

    A verdict that comes out differently becomes the current one; the old ones stay as history, and
    datasets that hold a row with a changed label are marked stale.  Measurements do not change.
    Where a detector fails, the evaluation keeps its verdict, is named on standard error, and the
    others are judged; then, exit code 3.

    \b
    kernelbench       a kernel of its own must do work that matters; library calls
                      beside it are allowed
    triton-only       Triton kernels must do the work
    anything-correct  any right answer that is computed in the candidate's own time

    \b
    assay judge --all --policy triton-only --dry-run
    assay judge --all --json | jq '.changes[] | select(.after == "hack")'
    assay judge 0199f3c2-…
    """
    settings: Settings = ctx.obj
    if everything == bool(evaluation_ids):
        raise errors.BadInputError("expected either --all or the ids of evaluations")
    policy = policies.find(policy_name) if policy_name else None
    tally = Tally()
    with services.client(settings) as client:
        database = client.database
        stored = (
            _wanted(database, evaluation_ids) if evaluation_ids else evaluations.iterate(database)
        )
        for one in track(
            stored,
            "judging",
            console=output.err(),
            transient=True,
            disable=not output.err().is_terminal,
        ):
            _judge(database, one, policy, tally, dry_run=dry_run)
    _print_json(tally, dry_run=dry_run) if as_json else _report(tally, dry_run=dry_run)
    if tally.failures:
        ctx.exit(errors.INFRASTRUCTURE)


def _print_json(tally: Tally, *, dry_run: bool) -> None:
    kinds = [
        {
            "verdict": verdict,
            "detector": detector or None,
            "finding": finding or None,
            "evaluations": count,
        }
        for (verdict, detector, finding), count in sorted(tally.kinds().items())
    ]
    output.json_out(
        {
            "judged": tally.judged,
            "policies": dict(sorted(tally.policies.items())),
            "changed": len(tally.changes),
            "failed": len(tally.failures),
            "dry_run": dry_run,
            "by_detector": kinds,
            "changes": [change.as_json() for change in tally.changes],
            "stale_exports": sorted(map(str, tally.stale)),
            "failures": tally.failures,
        }
    )


def _report(tally: Tally, *, dry_run: bool) -> None:
    """Every failure, the changes by verdict and detector, and the counts."""
    for failure in tally.failures:
        click.echo(f"error: evaluation {failure['evaluation_id']}: {failure['error']}", err=True)
    if tally.changes:
        table = Table("verdict", "detector", "its finding", "evaluations", box=None, pad_edge=False)
        for (verdict, detector, finding), count in sorted(tally.kinds().items()):
            why = detector or "none: policy, evidence or versions"
            table.add_row(*(Text(cell) for cell in (verdict, why, finding, str(count))))
        output.table_out(table)
    failed = f", {len(tally.failures)} could not be judged" if tally.failures else ""
    changed = "would change" if dry_run else "changed"
    if tally.changes:
        changed += f", {tally.relabelled} of them to another label"
    under = ", ".join(sorted(tally.policies)) or "no policy"
    click.echo(
        f"{tally.judged} judged under {under}, {len(tally.changes)} verdicts {changed}{failed}"
    )
    if tally.stale:
        click.echo(
            f"{'would be' if dry_run else 'now'} stale: datasets"
            f" {', '.join(sorted(map(str, tally.stale)))}"
        )


def _wanted(
    database: Database, evaluation_ids: tuple[UUID, ...]
) -> list[evaluations.StoredEvaluation]:
    found = []
    with database.begin() as connection:
        for evaluation_id in evaluation_ids:
            stored = evaluations.get(connection, evaluation_id)
            if stored is None:
                raise errors.BadInputError(f"no evaluation {evaluation_id}")
            found.append(stored)
    return found


def _judge(
    database: Database,
    stored: evaluations.StoredEvaluation,
    wanted: Policy | None,
    tally: Tally,
    *,
    dry_run: bool,
) -> None:
    """Take one evaluation into account; a failure is noted where a detector raises."""
    try:
        with database.begin() as connection:
            found = rejudge(connection, stored, wanted, dry_run=dry_run)
    except JudgingError as error:  # the others are judged
        if click.get_current_context().find_root().params["debug"]:
            raise
        message = f"{error} (`assay --debug …` shows where)"
        tally.failures.append({"evaluation_id": str(stored.evaluation_id), "error": message})
        return
    tally.judged += 1
    tally.policies[found.policy.key] += 1
    if not found.changed:
        return
    change = Change(
        evaluation_id=stored.evaluation_id,
        before=found.label_before,
        after=found.after.label,
        detectors=_differences(found.before, found.after),
    )
    tally.changes.append(change)
    tally.stale.update(found.stale)


def _differences(
    before: Verdict | None, after: Verdict
) -> dict[str, tuple[Label | None, Label | None]]:
    """Detectors with a heaviest finding that weighs otherwise than before."""
    old, new = _heaviest(before), _heaviest(after)
    pairs = {name: (old.get(name), new.get(name)) for name in sorted(old | new)}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _heaviest(verdict: Verdict | None) -> dict[str, Label]:
    """Detector → label of its heaviest finding."""
    ordered = sorted(verdict.findings if verdict else (), key=lambda finding: finding.label.weight)
    return {finding.detector: finding.label for finding in ordered}


def _arrow(before: Label | None, after: Label | None) -> str:
    return f"{before or 'none'} → {after or 'none'}"
