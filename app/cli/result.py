"""`assay result`: measurements and verdict of a job."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import click

from app.cli import errors, output, result_text, services, submit_options
from app.cli.number_range import NumberRange
from app.client import Client
from app.domain import problem_check
from app.domain.job import JobState
from app.domain.problem_check import CheckRow
from app.domain.result import Result
from app.settings import Settings
from app.store.trajectory import checks


@click.command("result")
@click.argument("job_id", metavar="JOB", type=click.UUID)
@click.option(
    "--wait",
    "wait_s",
    type=NumberRange(0, 86_400),
    default=0,
    show_default=True,
    help="Longest wait for the job's end, in seconds.",
)
@output.json_option("Print the whole result as JSON.")
@click.pass_context
def command(ctx: click.Context, job_id: UUID, wait_s: float, as_json: bool) -> None:
    """Print the result of JOB.

    Exit code 0: passed and not a hack; 1: anything else that was measured, or not finished yet; 3:
    the job failed by an infrastructure fault.  A check of a problem (`assay problems check`) has no
    result of its own: its line is printed, and kept on the problem's page.

    \b
    assay result 0199f3c2-… --wait 60
    assay result 0199f3c2-… --json | jq .speedup
    """
    settings: Settings = ctx.obj
    with services.client(settings) as client:
        if wait_s:
            with suppress(TimeoutError):  # then the result says how far it is
                client.wait([job_id], timeout_s=wait_s)
        result = client.results([job_id])[0]
        check = _check(client, result)
    if check is not None and not as_json:
        click.echo(output.safe(f"check      {check.outcome}: {problem_check.line(check)}"))
    elif as_json:
        output.json_out(result)
    else:
        output.out().print(result_text.details(result))
    passed = check is not None and check.outcome == "passed"
    ctx.exit(errors.OK if passed else submit_options.exit_code(result))


def _check(client: Client, result: Result) -> CheckRow | None:
    """The check that the job was, if it was one: it is finished, and has no evaluation."""
    if result["state"] != JobState.FINISHED or result["status"] is not None:
        return None
    job_id = UUID(str(result["job_id"]))
    with client.database.begin() as connection:
        return checks.of_jobs(connection, [job_id]).get(job_id)
