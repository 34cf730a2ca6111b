"""`assay cancel`: take jobs out of the queue, or stop them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

import click

from app.cli import errors, output, services
from app.client import Client
from app.domain.job import JobState
from app.settings import Settings
from app.store.queue import jobs
from app.store.trajectory import runs


@click.command("cancel")
@click.argument("job_ids", metavar="[JOB]…", nargs=-1, type=click.UUID)
@click.option("--run", help="Instead, every job of this run that waits or runs.")
@output.json_option("Print the states after that as JSON.")
@click.pass_context
def command(ctx: click.Context, job_ids: tuple[UUID, ...], run: str | None, as_json: bool) -> None:
    """Cancel each JOB for all who submitted it: a queued one at once, a running one as soon as its
    worker hears of it.

    Exit code 1 if one of the jobs had already ended.

    \b
    assay cancel 0199f3c2-… 0199f3c3-…
    assay cancel --run sweep-1
    """
    if bool(job_ids) == (run is not None):
        raise errors.BadInputError("expected either JOB… or --run")
    settings: Settings = ctx.obj
    with services.client(settings) as client:
        if run is not None:
            job_ids = tuple(_of_run(client, run))
        client.results(job_ids)  # all of them exist, before the first is cancelled
        after = {str(job_id): client.cancel(job_id, for_all=True) for job_id in job_ids}
    if as_json:
        output.json_out(after)
    elif run is not None:
        click.echo(_counted(list(after.values())))
    else:
        for job_id, state in after.items():
            click.echo(f"{job_id}  {_word(state)}")
    if run is None and any(
        state in (JobState.FINISHED, JobState.FAILED) for state in after.values()
    ):
        ctx.exit(errors.NO)


def _of_run(client: Client, name: str) -> list[UUID]:
    """Unfinished jobs of the run."""
    with client.database.begin() as connection:
        found = runs.listed(connection, name=name, limit=1)
        if not found:
            raise errors.BadInputError(f"no run is named {name!r}")
        return list(jobs.open_jobs(connection, run_id=found[0].run_id))


def _counted(states: Sequence[JobState]) -> str:
    counts = Counter(map(_word, states))
    return ", ".join(f"{count} {word}" for word, count in counts.items()) or "no job waits or runs"


def _word(state: JobState) -> str:
    return "stopping" if state is JobState.RUNNING else str(state)
