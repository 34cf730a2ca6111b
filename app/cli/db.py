"""`assay db`: the database's tables."""

from __future__ import annotations

import re
from pathlib import Path

import click

from app.cli import errors, output, services
from app.cli.group import Group
from app.cli.output_path import OutputPath
from app.embedded import database_dump
from app.settings import Settings
from app.store.evaluation import retention
from app.store.figures import rollups
from app.store.postgres import migrate
from app.store.queue import idempotency
from app.store.trajectory import foreign_jobs

_AGE = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>[hdw])")
_UNIT_S = {"h": 3_600, "d": 86_400, "w": 604_800}


def _age_s(_ctx: click.Context, _param: click.Parameter, value: str) -> float:
    """A length of time (12h, 30d, 8w) in seconds."""
    found = _AGE.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"expected hours, days or weeks (12h, 30d, 8w), got {value!r}")
    return float(found["number"]) * _UNIT_S[found["unit"]]


@click.group("db", cls=Group)
def command() -> None:
    """Upgrade, back up, restore and prune the database."""


@command.command("upgrade")
@click.option("--revision", default="head", show_default=True, help="Alembic revision to go to.")
@output.json_option()
@click.pass_obj
def upgrade(settings: Settings, revision: str, as_json: bool) -> None:
    """Bring the database to the tables of this version.

    Safe to run any number of times and from several machines at once.  The embedded database is
    upgraded whenever it starts; this is for a PostgreSQL of your own.

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
    sentence = f"the database is at revision {revision}"
    output.answer_out(sentence, {"revision": revision}, as_json=as_json)


@command.command("rollup")
@click.option(
    "--check",
    is_flag=True,
    help="Compute them anew, compare, change nothing; exit code 1 where they differ.",
)
@click.option("--rebuild", is_flag=True, help="Make them anew; writers wait until that is done.")
@output.json_option()
@click.pass_context
def rollup(ctx: click.Context, check: bool, rebuild: bool, as_json: bool) -> None:
    """Fold the deltas of the roll-ups that dashboards read, prove them, or make them anew.

    Triggers keep the roll-ups in the transaction that stores, and a running web server folds them:
    none of this has to be run for the numbers to be right.

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
                click.echo(
                    f"{found.table}: {found.missing} rows missing, {found.surplus} rows too many",
                    err=True,
                )
            sentence = (
                "the roll-ups differ; `assay db rollup --rebuild`"
                if differences
                else "the roll-ups are right"
            )
            fields = {"differences": [vars(found) for found in differences]}
            output.answer_out(sentence, fields, as_json=as_json)
            ctx.exit(errors.NO if differences else errors.OK)
        with client.database.begin() as connection:
            if rebuild:
                rollups.rebuild(connection)
            saved = rollups.fold(connection, least=1)
    output.answer_out(f"{saved} rows saved", {"saved": saved}, as_json=as_json)


@command.command("turns")
@click.option(
    "--repair", is_flag=True, help="Give them jobs of their own problem, and queue those."
)
@output.json_option()
@click.pass_context
def turns(ctx: click.Context, repair: bool, as_json: bool) -> None:
    """List turns that share a job of another problem with the same reference, or repair them.

    Only versions before 2026-11-28 stored such turns.  Datasets count their evaluations for the
    other problem.  Exit code 1 where there are any.  A repair evaluates their candidates again,
    which takes device time; until then they count as not evaluated.

    \b
    assay db turns
    assay db turns --repair
    """
    with services.client(ctx.obj) as client:
        repaired = foreign_jobs.repair(client.database) if repair else 0
        with client.database.snapshot() as connection:
            found = foreign_jobs.listed(connection)
    said = []
    if repair:
        said.append(f"{repaired} turns have a job of their own problem now; workers evaluate it")
    said += [
        f"{each.source_set}/{each.problem}: {each.turns} turns with jobs of"
        f" {each.other_source_set}/{each.other_problem}"
        for each in found
    ]
    if not found:
        said.append("every turn's job is of the turn's own problem")
    fields = {"repaired": repaired, "foreign": [output.plain_fields(each) for each in found]}
    output.answer_out("\n".join(said), fields, as_json=as_json)
    ctx.exit(errors.NO if found else errors.OK)


@command.command("prune")
@click.option(
    "--profiles-older-than",
    "older_than_s",
    callback=_age_s,
    required=True,
    metavar="AGE",
    help="Timelines older than that go: 12h, 30d, 8w.",
)
@click.option("--dry-run", is_flag=True, help="Print the counts, delete nothing.")
@output.json_option("Print the counts as JSON.")
@click.pass_obj
def prune(settings: Settings, older_than_s: float, dry_run: bool, as_json: bool) -> None:
    """Delete the timelines of old profiles and vacuum their table, and forget
    idempotency keys after a week.

    Timelines are nearly all of the database's size.  Measurements, kernel tables, verdicts and
    sources stay, and jobs whose keys are forgotten.  For cron; everything may run meanwhile.

    \b
    assay db prune --profiles-older-than 30d --dry-run
    assay db prune --profiles-older-than 8w
    """
    with services.client(settings) as client:
        with client.database.snapshot() as connection:
            found = retention.old_timelines(connection, older_than_s)
            keys = idempotency.expired(connection)
        deleted = keys_deleted = 0
        if not dry_run:
            with output.progress("deleting") as bar:
                task = bar.add_task("rows", total=found.number)
                deleted = retention.prune_timelines(
                    client.database, older_than_s, lambda number: bar.advance(task, number)
                )
            keys_deleted = idempotency.forget(client.database)
    if as_json:
        timelines = {"found": found.number, "found_bytes": found.stored_bytes, "deleted": deleted}
        output.json_out({**timelines, "keys_found": keys, "keys_deleted": keys_deleted})
    else:
        what = f"{found.number} timelines, {found.stored_bytes / 1e6:.1f} MB compressed"
        click.echo(f"would delete {what}" if dry_run else f"deleted {deleted} of {what}")
        click.echo(
            f"would forget {keys} idempotency keys"
            if dry_run
            else f"forgot {keys_deleted} idempotency keys"
        )


@command.command("backup")
@click.argument("file", type=OutputPath())
@output.json_option()
@click.pass_obj
def backup(settings: Settings, file: Path, as_json: bool) -> None:
    """Write the whole database to FILE (pg_dump's custom format) while everything runs.

    It holds every source, result and password hash: keep it as safe as the database.

    \b
    assay db backup assay-2026-11-21.dump
    """
    with services.opened(settings) as running:
        assert running.database_url is not None
        size = database_dump.backup(running.database_url, file)
    fields = {"file": str(file), "size_bytes": size}
    output.answer_out(f"{file}: {size / 1e6:.1f} MB", fields, as_json=as_json)


@command.command("restore")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--yes", is_flag=True, help="Replace the current contents of the database.")
@output.json_option()
@click.pass_obj
def restore(settings: Settings, file: Path, yes: bool, as_json: bool) -> None:
    """Restore the database to its state in FILE, then bring it to the tables of this version.

    All or nothing, in one transaction.  Stop workers and web before.  Jobs that waited or ran then
    run again: their messages are sent by the first worker's sweep, so Redis needs no backup.

    \b
    assay db restore assay-2026-11-21.dump --yes
    """
    if not yes:
        raise click.UsageError(
            "this replaces everything that the database holds now; expected --yes"
        )
    with services.opened(settings) as running:
        assert running.database_url is not None
        database_dump.restore(running.database_url, file)
        migrate.upgrade(running.database_url)
    sentence = f"the database is as it was in {file}"
    output.answer_out(sentence, {"restored": str(file)}, as_json=as_json)
