"""`assay reviews`: opinions of people on evaluations, with their reasons."""

from __future__ import annotations

from uuid import UUID

import click
from rich.table import Table

from app.cli import datasets, render, services
from app.settings import Settings
from app.store import listing


@click.command("reviews", short_help="List what people said of evaluations, and why.")
@click.option("--evaluation", type=click.UUID, help="Only reviews of this evaluation.")
@datasets.LIMIT
@datasets.JSON
@click.pass_obj
def command(settings: Settings, /, evaluation: UUID | None, limit: int, as_json: bool) -> None:
    """List reviews, newest first, with their reasons.

    \b
    assay reviews --evaluation 0199f3c2-…
    """
    with services.client(settings) as client, client.database.begin() as connection:
        found = listing.opinions(connection, evaluation_id=evaluation, limit=limit)
    if as_json:
        render.json_out(datasets.plain(found))
        return
    table = Table("when", "evaluation", "by", "opinion", "verdict", "reason", box=None, header_style="dim")
    for one in found:
        table.add_row(
            f"{one.created_at:%Y-%m-%d %H:%M}", str(one.evaluation_id), render.safe(one.name or "–"), one.label,
            render.word(one.verdict), render.safe(one.reason),
        )  # fmt: skip
    render.table_out(table)
