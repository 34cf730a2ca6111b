"""`assay reproduce`: make the rows of a manifest again from the same database."""

from __future__ import annotations

import json
from pathlib import Path

import click

from app import export
from app.cli import errors, output, services
from app.cli.export import Watched
from app.cli.output_path import OutputPath
from app.settings import Settings


@click.command("reproduce")
@click.argument("manifest", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out",
    required=True,
    type=OutputPath(folder=True),
    help="Folder to make; it must not exist.",
)
@output.json_option("Print the differences as JSON.")
@click.pass_context
def command(ctx: click.Context, manifest: Path, out: Path, as_json: bool) -> None:
    """Make the rows of MANIFEST (a manifest.json) again in --out, from the same database.

    Evaluations, verdicts and reviews are read as they were at the manifest's moment.  Exit code 0:
    the content is the same; 1: it differs; the differences are printed, one per line.

    \b
    assay reproduce runs/2026-11-21-sft/manifest.json --out again
    """
    settings: Settings = ctx.obj
    try:
        body = json.loads(errors.text_of(manifest))
        with services.client(settings) as client, Watched("exporting") as watched:
            made, differences = export.reproduce(client.database, body, out, progress=watched)
    except (export.ExportError, json.JSONDecodeError, KeyError) as error:
        raise errors.BadInputError(f"{manifest}: {error}") from error
    if as_json:
        output.json_out(
            {"rows": made.rows, "content_sha256": made.content_sha256, "differences": differences}
        )
    else:
        for difference in differences:
            click.echo(difference)
        click.echo(
            f"{made.rows} rows in {out}: " + ("not the same" if differences else "the same content")
        )
    if differences:
        ctx.exit(errors.NO)
