"""`assay eval --pending`: evaluate all queued jobs and wait for them."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass

import click

from app.cli import errors, output, services, submit_options
from app.domain.job import JobState
from app.settings import Settings
from app.store.queue import jobs


@dataclass(frozen=True, kw_only=True)
class Drained:
    """Jobs of one `assay eval --pending`."""

    ended: Counter[str]
    """Status of the evaluation, or state of the job where there is none → jobs."""
    waiting: dict[str, int]
    """Device class or device without a worker → jobs that still wait for one."""


def run(settings: Settings, only: str | None = None) -> Drained:
    """Wait for the queued jobs that a worker can run; `only`: those of this device class or device.

    Without a worker on the CPU, one is started for as long as it takes; jobs for other devices wait
    where there is none, and are counted.
    """
    found: Counter[str] = Counter()
    with ExitStack() as stack:
        client = stack.enter_context(services.client(settings))
        with client.database.begin() as connection:
            waiting = {
                job_id: name
                for job_id, name in jobs.open_jobs(connection).items()
                if only is None or name == only
            }
        workers, left = [], Counter[str]()
        for name in sorted(set(waiting.values())):
            try:
                workers.append(stack.enter_context(services.Worker(settings, client, name)))
            except services.NoWorkerError:
                left[name] = sum(each == name for each in waiting.values())
        waiting = {job_id: name for job_id, name in waiting.items() if name not in left}
        bar = stack.enter_context(output.progress("evaluating"))
        task = bar.add_task("jobs", total=len(waiting))

        def check() -> None:
            for worker in workers:
                worker.check()

        for job_id in submit_options.over(client, set(waiting), check):
            [result] = client.results([job_id])
            found[str(result["status"] or result["state"])] += 1
            bar.advance(task)
    return Drained(ended=found, waiting=dict(left))


def report(outcome: Drained, *, as_json: bool) -> None:
    """Print the counts; jobs without a worker on standard error, too."""
    found = outcome.ended
    for name, count in outcome.waiting.items():
        click.echo(f"note: no worker for {name!r} is online; {count} jobs wait for one", err=True)
    if as_json:
        output.json_out(
            {
                "jobs": found.total(),
                "statuses": dict(sorted(found.items())),
                "without_worker": outcome.waiting,
            }
        )
    else:
        listed = (
            ", ".join(f"{count} {name}" for name, count in found.most_common())
            or "nothing was queued"
        )
        click.echo(f"{found.total()} jobs: {listed}")


def exit_code(outcome: Drained) -> int:
    """3 where a job failed by a fault of the service, or none of the jobs could be run; else 0."""
    if outcome.ended[JobState.FAILED] or (outcome.waiting and not outcome.ended):
        return errors.INFRASTRUCTURE
    return errors.OK
