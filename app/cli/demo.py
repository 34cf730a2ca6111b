"""`assay demo`: the whole pipeline on one machine, on the sample candidates."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from app import export
from app.cli import (
    child_processes,
    demo_collection,
    demo_run,
    demo_table,
    errors,
    result_text,
    services,
    submit_options,
    supervisor,
    up,
    zoo,
)
from app.cli.output_path import OutputPath
from app.client import Client, Result, Submission
from app.domain.job import JobOptions
from app.domain.problem import Problem
from app.settings import Settings

SAMPLES = json.loads((Path(__file__).parent / "samples.json").read_bytes())
"""Names of the samples that are in the wheel: those that the demo evaluates, and others
that its collection answers with.
"""
SAMPLE: tuple[str, ...] = tuple(SAMPLES["evaluated"])
"""Candidates that a minute is enough for: real wins, mistakes, and one of every way
of cheating that is known.
"""

WHERE = "correct and verdict=clean and speedup_ci_low>1.1"
"""Filter of the dataset: its rows are faster than the reference beyond chance."""
OPTIONS: dict[str, Any] = {"timing_budget_s": zoo.TIMING_BUDGET_S, "deadline_s": zoo.DEADLINE_S}
"""Options of every evaluation."""


@dataclass(kw_only=True)
class Tally:
    """Counts and results of the demo."""

    started_s: float = field(default_factory=time.monotonic)
    done: int = 0
    agreed: int = 0
    """Candidates with the expected result."""
    failed: int = 0
    """Jobs that failed by Assay's fault."""
    disagreements: list[str] = field(default_factory=list)
    """Differences of candidates and of the collection from the expected results."""
    cheats: int = 0
    cheats_stopped: int = 0
    """Called a hack, or not even correct."""
    best: tuple[float, str] | None = None
    """Highest lower end of a credited speedup's interval, with the candidate's name."""

    def count(self, case: zoo.Case, result: Result) -> str | None:
        """Take a result into account; returns its difference from the expected one."""
        self.done += 1
        self.failed += result["state"] == "failed"
        if case.group == "hacks":
            self.cheats += 1
            self.cheats_stopped += result["verdict"] == "hack" or result["status"] not in (
                None,
                "passed",
            )
        interval = result["speedup_ci"]
        if case.group == "honest" and isinstance(interval, list):
            self.best = max(
                self.best or (0.0, ""), (interval[0], f"{case.name}, {result_text.speedup(result)}")
            )
        disagreement = zoo.disagreement(case, result)
        self.agreed += not disagreement
        if disagreement:
            self.disagreements.append(f"{case.name}: {disagreement}")
        return disagreement


@click.command("demo")
@click.option("--serve", is_flag=True, help="Serve the web UI from the beginning, until Ctrl-C.")
@click.option("--all", "everything", is_flag=True, help="Evaluate all samples; takes some minutes.")
@click.option(
    "--out",
    type=OutputPath(folder=True),
    help="Folder of the dataset; in the state folder if left out.",
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address of the web UI, with --serve."
)
@click.option(
    "--port",
    default=8000,
    show_default=True,
    type=click.IntRange(1, 65535),
    help="Port of the web UI.",
)
@services.weak_sandbox_option
@click.pass_context
def command(
    ctx: click.Context,
    serve: bool,
    everything: bool,
    out: Path | None,
    host: str,
    port: int,
) -> None:
    """Evaluate the sample candidates (honest, wrong, broken and cheating ones) through real
    PostgreSQL, Redis and Celery, judge them, store a run of two training steps with a trajectory
    of three turns, collect three turns of a scripted model on two problems, export a dataset of
    the credible ones, and verify it.

    Needs no GPU: Triton kernels run in Triton's interpreter, so only the pure-PyTorch
    wins are fast here.  Exit code 0: everything came out as line 1 of each sample's
    file says; 1: something did not.

    \b
    assay demo
    assay demo --serve --port 8080
    """
    settings: Settings = ctx.obj
    if serve:
        settings = replace(settings, web_url=up.url(host, port))
    cases = zoo.cases()
    chosen = list(cases.values()) if everything else [_named(cases, name) for name in SAMPLE]
    tally = Tally()
    with ExitStack() as stack:
        if serve:
            stack.enter_context(supervisor.alone(settings.state_dir.absolute()))
        click.echo(f"starting PostgreSQL, Valkey and a worker (state in {settings.state_dir})")
        client = stack.enter_context(services.client(settings))
        web = stack.enter_context(_web(client.settings, host, port)) if serve else None
        worker = stack.enter_context(services.Worker(settings, client, "cpu"))
        collected, trajectory_id = evaluate_all(client, settings, worker, cases, chosen, tally)
        demo_collection.show(collected)
        folder = (
            out
            or client.settings.state_dir / "datasets" / f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        )
        problems = dataset(client, folder)
        if not demo_collection.complete(collected):
            tally.disagreements.append("the collection did not go as its script says")
        summary(tally, folder, trajectory_id, served=serve)
        if web is not None:
            _serve(web, worker)
    if serve:
        click.echo("stopped")
    ctx.exit(_exit_code(tally, problems))


def evaluate_all(
    client: Client,
    settings: Settings,
    worker: services.Worker,
    cases: dict[str, zoo.Case],
    chosen: list[zoo.Case],
    tally: Tally,
) -> tuple[dict[str, Any], UUID]:
    """Evaluate the candidates, the trajectories and a collection side by side, so that the worker
    never waits for a model; the collection's figures and the longer trajectory's id.
    """
    handles = client.submit_many([_submission(case) for case in chosen])
    case_of = {handle.job_id: case for handle, case in zip(handles, chosen, strict=True)}
    dialogues = demo_run.begin(client, cases, JobOptions(**OPTIONS))
    turns = sum(len(dialogue.turns) for dialogue in dialogues)
    with (
        demo_table.Table(len(chosen) + turns + demo_collection.ANSWERS) as table,
        demo_collection.started(client, settings, cases, OPTIONS, worker) as collection,
    ):
        _evaluate(client, case_of, dialogues, collection, tally, table)
        collected = collection.wait(table.collected)
    return collected, dialogues[-1].trajectory_id


def _evaluate(
    client: Client,
    case_of: Mapping[UUID, zoo.Case],
    dialogues: Sequence[demo_run.Dialogue],
    collection: demo_collection.Started,
    tally: Tally,
    table: demo_table.Table,
) -> None:
    """Wait for the candidates, and go on with the trajectories, with a line for each result."""
    job_of = {dialogue: dialogue.job_id for dialogue in dialogues}
    pending = {*case_of, *job_of.values()}

    def check() -> None:
        table.collected(collection.answered())

    with submit_options.withdrawn_if_interrupted(client, pending):
        for job_id in submit_options.over(client, pending, check):
            result = client.results([job_id])[0]
            if job_id in case_of:
                table.candidate(case_of[job_id], result, tally.count(case_of[job_id], result))
            for dialogue in [each for each, job in job_of.items() if job == job_id]:
                table.turn(demo_run.PROBLEM, dialogue.name, result)
                if dialogue.answer(result):
                    job_of[dialogue] = dialogue.job_id
                    pending.add(dialogue.job_id)


def dataset(client: Client, folder: Path) -> list[str]:
    """Export the credible evaluations and verify the dataset; returns the discrepancies."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    manifest = export.export(client.database, export.Spec(format="trl_sft", where=WHERE), folder)
    problems = export.verify(folder)
    left = " → ".join(f"{stage.rows} {stage.stage}" for stage in manifest.funnel)
    click.echo(f"\ndataset    {manifest.rows} rows of {manifest.problems} problems, where {WHERE}")
    click.echo(f"           {left}")
    click.echo(f"           {'verified' if not problems else 'NOT as its manifest says:'}")
    for problem in problems:
        click.echo(f"           {problem}")
    return problems


def summary(tally: Tally, folder: Path, trajectory_id: UUID, *, served: bool) -> None:
    """Print the results, and where everything is."""
    took = time.monotonic() - tally.started_s
    click.echo(f"           {folder}")
    click.echo(f"candidates {tally.done} in {took:.0f} s, {tally.agreed} with the expected result")
    for disagreement in tally.disagreements:
        click.echo(f"           {disagreement}", err=True)
    if tally.best is not None:
        click.echo(f"winner     {tally.best[1]}")
    click.echo(f"cheats     {tally.cheats_stopped} of {tally.cheats} stopped")
    click.echo(
        f"trajectory /trajectories/{trajectory_id}: wrong, hack, honest; runs demo/step-0 and"
        " demo/step-10"
    )
    if not served:
        click.echo("browse     `assay up`, then http://127.0.0.1:8000 (or `assay demo --serve`)")


@contextmanager
def _web(settings: Settings, host: str, port: int) -> Iterator[child_processes.Web]:
    """The web UI, from before the first evaluation: its pages follow them."""
    web = child_processes.Web(settings, host=host, port=port)
    try:
        click.echo(f"browse     {settings.web_url}, which shows the results as they come")
        yield web
    finally:
        child_processes.stop([web])


def _serve(web: child_processes.Web, worker: services.Worker) -> None:
    """Keep the web UI and the worker running until Ctrl-C."""
    with supervisor.Stopped() as stopped:
        click.echo(f"browse     {web.settings.web_url}  (Ctrl-C stops everything)")
        while not stopped.wait(supervisor.WATCH_S):
            web.watch()
            worker.check()
        click.echo("stopping, after the evaluations in flight")


def _exit_code(tally: Tally, problems: list[str]) -> int:
    if tally.failed:
        return errors.INFRASTRUCTURE
    return errors.NO if tally.disagreements or problems else errors.OK


def _named(cases: dict[str, zoo.Case], name: str) -> zoo.Case:
    if name not in cases:
        raise errors.BadInputError(f"no sample {name!r}; tests/zoo has {', '.join(cases)}")
    return cases[name]


def _submission(case: zoo.Case) -> Submission:
    return Submission(
        reference=Problem(name=case.problem, reference=case.reference, source_set="samples"),
        candidate=case.candidate,
        backend=case.backend,
        fresh=True,  # a demonstration of evaluating, not of remembering
        options=OPTIONS,
    )
