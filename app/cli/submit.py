"""`assay submit`: queue a candidate and do not wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from app.cli import output, services, submit_options
from app.settings import Settings


@click.command("submit")
@submit_options.submission_options
@output.json_option("Print the result as it is now, as JSON.")
@click.pass_obj
def command(
    settings: Settings, /, reference: Path, candidate: Path, as_json: bool, **options: Any
) -> None:
    """Queue CANDIDATE, a module defining ModelNew, against REFERENCE, and print the job's id.

    The same files with the same options are the same job, which may have its result already;
    --fresh makes a new one. With embedded services the job waits until `assay up`, `assay eval`
    or `assay demo` starts a worker.

    \b
    job=$(assay submit softmax.py softmax_triton.py --backend triton --gpu h200)
    assay status $job
    assay result $job
    """
    submission = submit_options.checked(submit_options.submission(reference, candidate, **options))
    with services.client(settings) as client:
        handle = client.submit_many([submission])[0]
        if as_json:
            output.json_out(handle.result())
        else:
            click.echo(str(handle.job_id))
        if not services.online(client, submission.gpu):
            click.echo(
                f"note: no worker for {submission.gpu!r} is online; the job waits for one", err=True
            )
