"""`assay datasets`: datasets that were made, and whether they still stand."""

from __future__ import annotations

from collections.abc import Callable

import click

from app.cli import list_options, output, services
from app.settings import Settings
from app.store.dataset import listing


@click.command("datasets")
@click.option(
    "--stale", is_flag=True, help="Only datasets that rest on a verdict that has changed since."
)
@list_options.LIMIT
@list_options.JSON
@click.pass_obj
def command(settings: Settings, /, stale: bool, limit: int, as_json: bool) -> None:
    """List the datasets that were made here, newest first.

    A dataset is stale once a verdict that its rows rest on has come out otherwise, by a person or
    by newer detectors; the reason of the first such change is shown.  `assay export --spec
    MANIFEST --out DIR` makes it anew.

    \b
    assay datasets --stale
    """
    with services.client(settings) as client, client.database.begin() as connection:
        found = listing.datasets(connection, stale=stale, limit=limit)
    output.records_out(found, _COLUMNS, as_json=as_json)


_COLUMNS: dict[str, Callable[[listing.Dataset], output.Cell]] = {
    "made": lambda one: output.minute(one.created_at),
    "format": lambda one: one.format,
    "rows": lambda one: str(one.rows),
    "stale since": lambda one: output.minute(one.stale_at) if one.stale_at else None,
    "reason": lambda one: one.stale_reason,
    "folder": lambda one: one.directory,
}
