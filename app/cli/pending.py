"""`assay eval --pending`: evaluate what is queued already, whoever asked for it, and wait until it is over."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

import click

from app.cli import failures, queue, render, services
from app.domain.job import JobState
from app.settings import Settings
from app.store import jobs


def run(settings: Settings) -> Counter[str]:
    """How the jobs ended: status, or state where there is no evaluation.

    Without a worker on the CPU, one is started for as long as it takes; for other devices there must be one."""
    found: Counter[str] = Counter()
    with ExitStack() as stack:
        client = stack.enter_context(services.client(settings))
        with client.database.begin() as connection:
            waiting = jobs.open_jobs(connection)
        workers = [
            stack.enter_context(services.Worker(settings, client, name)) for name in sorted(set(waiting.values()))
        ]
        bar = stack.enter_context(render.progress("evaluating"))
        task = bar.add_task("jobs", total=len(waiting))

        def check() -> None:
            for worker in workers:
                worker.check()

        for job_id in queue.over(client, list(waiting), check):
            [result] = client.results([job_id])
            found[str(result["status"] or result["state"])] += 1
            bar.advance(task)
    return found


def report(found: Counter[str], *, as_json: bool) -> None:
    """Print the counts."""
    if as_json:
        render.json_out({"jobs": found.total(), "statuses": dict(sorted(found.items()))})
    else:
        listed = ", ".join(f"{count} {name}" for name, count in found.most_common()) or "nothing was queued"
        click.echo(f"{found.total()} jobs: {listed}")


def exit_code(found: Counter[str]) -> int:
    """3 where a job failed by our fault, else 0."""
    return failures.INFRASTRUCTURE if found[JobState.FAILED] else failures.OK
