"""`assay status`: where jobs are."""

from __future__ import annotations

from uuid import UUID

import click

from app.cli import output, services
from app.settings import Settings
from app.store.queue import jobs


@click.command("status")
@click.argument("job_ids", metavar="[JOB]…", nargs=-1, type=click.UUID)
@output.json_option("Print JSON: an object by job, or the counts.")
@click.pass_obj
def command(settings: Settings, job_ids: tuple[UUID, ...], as_json: bool) -> None:
    """Print the state of each JOB (queued, running, finished, failed, cancelled);
    without any, how many are in each.

    \b
    assay status
    assay status 0199f3c2-… --json
    """
    with services.client(settings) as client:
        if job_ids:
            states = {result["job_id"]: result["state"] for result in client.results(job_ids)}
        else:
            with client.database.begin() as connection:
                counts = {str(state): count for state, count in jobs.counts(connection).items()}
    if as_json:
        output.json_out(states if job_ids else counts)
    elif job_ids:
        for job_id, state in states.items():
            click.echo(str(state) if len(states) == 1 else f"{job_id}  {state}")
    else:
        for state, count in counts.items():
            click.echo(f"{state:<10}{count:>8}")
