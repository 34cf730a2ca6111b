"""`assay cancel`: take jobs out of the queue, or stop them."""

from __future__ import annotations

from uuid import UUID

import click

from app.cli import errors, output, services
from app.domain.job import JobState
from app.settings import Settings


@click.command("cancel", short_help="Take jobs out of the queue, or stop them.")
@click.argument("job_ids", metavar="JOB…", nargs=-1, required=True, type=click.UUID)
@output.json_option("Print the states after that as JSON.")
@click.pass_context
def command(ctx: click.Context, job_ids: tuple[UUID, ...], as_json: bool) -> None:
    """Cancel each JOB for all who submitted it: a queued one at once, a running one as
    soon as its worker hears of it.

    Exit code 1 if one of the jobs had already ended.

    \b
    assay cancel 0199f3c2-… 0199f3c3-…
    """
    settings: Settings = ctx.obj
    with services.client(settings) as client:
        client.results(job_ids)  # all of them exist, before the first is cancelled
        after = {str(job_id): client.cancel(job_id, for_all=True) for job_id in job_ids}
    if as_json:
        output.json_out(after)
    else:
        for job_id, state in after.items():
            click.echo(f"{job_id}  {'stopping' if state is JobState.RUNNING else state}")
    if any(state in (JobState.FINISHED, JobState.FAILED) for state in after.values()):
        ctx.exit(errors.NO)
