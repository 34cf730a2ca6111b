"""Options of commands that list records."""

from __future__ import annotations

import click

from app.cli import output

LIMIT = click.option(
    "--limit",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Most lines, newest first.",
)
JSON = output.json_option("Print the list as JSON.")
