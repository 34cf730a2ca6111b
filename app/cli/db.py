"""`assay db`: the database's tables."""

from __future__ import annotations

import click

from app.cli import failures, services
from app.settings import Settings
from app.store import migrate, rollups


@click.group("db", short_help="Look after the database's tables.")
def command() -> None:
    """Look after the database."""


@command.command("upgrade")
@click.option("--revision", default="head", show_default=True, help="Alembic revision to go to.")
@click.pass_obj
def upgrade(settings: Settings, revision: str) -> None:
    """Bring the database to the tables of this version.

    Safe to run any number of times and from several machines at once.  The embedded database is upgraded whenever it
    starts; this is for a PostgreSQL of your own.

    \b
    ASSAY_DATABASE_URL=postgresql+psycopg://assay:…@db/assay assay db upgrade
    """
    url = settings.database_url
    if url:
        migrate.upgrade(url, revision)
    else:
        with services.opened(settings) as running:
            assert running.database_url is not None
            migrate.upgrade(running.database_url, revision)
    click.echo(f"the database is at revision {revision}")


@command.command("rollup")
@click.option(
    "--check", is_flag=True, help="Compute them anew, compare, change nothing; exit code 1 where they differ."
)
@click.option("--rebuild", is_flag=True, help="Make them anew; writers wait until that is done.")
@click.pass_context
def rollup(ctx: click.Context, check: bool, rebuild: bool) -> None:
    """Fold the deltas of the roll-ups that dashboards read, prove them, or make them anew.

    Triggers keep the roll-ups in the transaction that stores, and a running web server folds them: none of this has to
    be run for the numbers to be right.

    \b
    assay db rollup
    assay db rollup --check
    """
    if check and rebuild:
        raise click.UsageError("expected one of --check and --rebuild, got both")
    with services.client(ctx.obj) as client:
        if check:
            with client.database.snapshot() as connection:
                differences = rollups.check(connection)
            for found in differences:
                click.echo(f"{found.table}: {found.missing} rows missing, {found.surplus} rows too many", err=True)
            click.echo("the roll-ups differ; `assay db rollup --rebuild`" if differences else "the roll-ups are right")
            ctx.exit(failures.NO if differences else failures.OK)
        with client.database.begin() as connection:
            if rebuild:
                rollups.rebuild(connection)
            click.echo(f"{rollups.fold(connection, least=1)} rows saved")
