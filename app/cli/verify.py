"""`assay verify`: prove that a dataset matches its manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from app import export
from app.cli import errors, output


@click.command("verify")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--why",
    "evaluation",
    type=click.UUID,
    help="Say why this evaluation is in the dataset, or out of it.",
)
@click.option(
    "--against",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Say how the dataset differs from this one.",
)
@output.json_option("Print the answer as JSON.")
@click.pass_context
def command(
    ctx: click.Context, directory: Path, evaluation: Any, against: Path | None, as_json: bool
) -> None:
    """Check the dataset in DIRECTORY against its manifest: files, hashes, counts, lineage, columns.

    Needs no server.  Exit code 0: nothing found; 1: discrepancies, one a line; with --why, 1: it is
    not in a row; with --against, 1: they differ.

    \b
    assay verify runs/2026-11-21-sft
    assay verify runs/2026-11-21-sft --why 0199f3c2-…
    assay verify after --against before
    """
    if evaluation is not None and against is not None:
        raise click.UsageError("expected one of --why and --against, got both")
    if evaluation is not None:
        ctx.exit(_why(directory, str(evaluation), as_json=as_json))
    if against is not None:
        ctx.exit(_diff(against, directory, as_json=as_json))
    problems = export.verify(directory)
    if as_json:
        output.json_out({"directory": str(directory), "problems": problems})
    elif problems:
        for problem in problems:
            click.echo(problem)
    else:
        click.echo(f"{directory}: as its manifest says")
    if problems:
        ctx.exit(errors.NO)


def _why(directory: Path, evaluation_id: str, *, as_json: bool) -> int:
    found = export.why(directory, evaluation_id)
    if as_json:
        output.json_out(found)
    elif not found:
        click.echo("the selection never saw it: it was stored later, or is of another database")
    for one in () if as_json else found:
        turn = f"turn {one['turn_id']}" if one["turn_id"] else "without a turn"
        places = ", ".join(
            f"{row['split']} row {row['row']} as {row['role']}" for row in one["rows"]
        )
        click.echo(f"{turn}: " + (f"in {places}" if places else _out(one)))
    return errors.OK if any(one["rows"] for one in found) else errors.NO


def _out(one: dict[str, Any]) -> str:
    detail = f" ({output.safe(one['detail'])})" if one["detail"] else ""
    return f"out at stage {one['stage']!r}, which keeps: {output.safe(one['rule'])}{detail}"


def _diff(before: Path, after: Path, *, as_json: bool) -> int:
    found = export.diff(before, after)
    if as_json:
        output.json_out(found)
    else:
        for name, (old, new) in (found["spec"] | found["funnel"]).items():
            click.echo(f"{name}: {old} → {new}")
        click.echo(
            f"{found['added']} rows added, {found['removed']} removed, {found['changed']} changed"
        )
    return errors.NO if found["added"] or found["removed"] or found["changed"] else errors.OK
