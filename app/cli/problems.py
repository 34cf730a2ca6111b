"""`assay problems`: which problems there are, and which of them can be evaluated on a device."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import click
from rich.table import Table

from app import enqueue, routing
from app.cli import errors, output, services, submit_options
from app.cli.group import Group
from app.cli.number_range import NumberRange
from app.client import Client
from app.domain import kernelbench, problem_check, problem_folder
from app.domain.job import REWARD_BUDGET_S, TERMINAL, JobOptions, Priority
from app.domain.problem import Problem
from app.domain.request import Request, RequestError
from app.settings import Settings
from app.store.queue import jobs
from app.store.trajectory import checks, problems
from app.workflows import CHECK

MOST_NAMED = 5
"""Files without a problem that are named; the others are counted."""


@click.group("problems", cls=Group)
def command() -> None:
    """Check which problems can be evaluated on a device, before training on them.

    \b
    assay problems check --from ~/KernelBench --gpu h200
    assay problems check --source-set kernelbench --level 1 --gpu h200
    assay problems record h100.json --from ~/KernelBench
    """


@command.command("check")
@click.option(
    "--from",
    "directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help=(
        "Problems of a KernelBench checkout, or of any folder with files that define Model and"
        " get_inputs; they are stored, too."
    ),
)
@click.option(
    "--source-set",
    help=(
        "Problems that are here already, of this source set.  With --from: the source set to store"
        " them under, by default kernelbench for a folder with level1 …, else the folder's name."
    ),
)
@click.option(
    "--level",
    "levels",
    type=int,
    multiple=True,
    help="Only of this level; may be given several times.",
)
@click.option("--name", default="", help="Only names that contain this.")
@click.option(
    "--gpu",
    default="cpu",
    show_default=True,
    help=f"Device class: {', '.join(routing.DEVICE_CLASSES)}.",
)
@click.option(
    "--timing-budget",
    "budget_s",
    type=NumberRange(0, 600),
    default=REWARD_BUDGET_S,
    show_default=True,
    help="Seconds for timing each problem; 0 checks correctness only.",
)
@click.option(
    "--device-time",
    is_flag=True,
    help="Also measure the speedup by the device's own time (CUDA graphs).",
)
@click.option(
    "--fresh",
    is_flag=True,
    help="Check again problems that were checked before on that device class.",
)
@output.json_option("Print rows and summary as JSON.")
@services.weak_sandbox_option
@click.pass_context
def check(
    ctx: click.Context,
    /,
    directory: Path | None,
    source_set: str | None,
    levels: tuple[int, ...],
    name: str,
    gpu: str,
    budget_s: float,
    device_time: bool,
    fresh: bool,
    as_json: bool,
) -> None:
    """Evaluate every problem against itself: its reference is also the candidate,
    under the policy anything-correct.

    Such a candidate must be passed and clean, with a speedup whose interval holds 1.0.  Any other
    outcome is the problem's fault (`invalid`: it is random, too large for the device, lacks a
    package …) or a fault of the evaluation, and is named.  Results are kept on each problem's page,
    apart from attempts: no figure and no dataset counts them.

    Workers of that kind of device do the work; without one on the CPU, one is started for as long
    as it takes. Interrupted and started again, it goes on where it was.  Exit code 0: every problem
    passed or is invalid for a reason of its own; 1: some did not; 2: some files cannot be read as
    problems; 3: some failed by Assay's fault.

    \b
    assay problems check --from ~/KernelBench --level 1 --level 2 --gpu h200
    assay problems check --from ~/problems --source-set own --gpu h200
    assay problems check --source-set kernelbench --gpu h100 --json > checks.json
    """
    settings: Settings = ctx.obj
    if directory is None and source_set is None:
        raise errors.BadInputError("expected --from or --source-set")
    began = time.perf_counter()
    given = _of_folder(directory, source_set) if directory is not None else None
    with ExitStack() as stack:
        client = stack.enter_context(services.client(settings))
        chosen = _chosen(client, given, source_set, levels, name)
        job_ids = _submit(
            client,
            chosen,
            gpu,
            problem_check.options(budget_s, device_time=device_time),
            fresh=fresh,
        )
        waiting = _number_open(client, job_ids)
        worker = stack.enter_context(services.Worker(settings, client, gpu))
        rows = _gathered(client, job_ids, worker)
    said = problem_check.summary(rows, time.perf_counter() - began, waiting)
    if as_json:
        output.json_out(
            {"rows": [asdict(row) | {"outcome": row.outcome} for row in rows], "summary": said}
        )
    else:
        _print(rows, said)
    ctx.exit(_exit_code(rows) or (errors.USAGE if given is not None and given.bad else errors.OK))


@command.command("record")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--from",
    "directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder of the checked problems, which are stored first.",
)
@output.json_option("Print the counts as JSON.")
@click.pass_obj
def record(settings: Settings, /, file: Path, directory: Path | None, as_json: bool) -> None:
    """Keep the results of checks that ran without database and queue, for the problems' pages.

    FILE is written by `python -m tests.bench.sweep KERNELBENCH --json FILE` on a GPU
    host.  Problems are found by the hash of their reference; those that are not here are
    counted, and a newer check stays.

    \b
    assay problems record h100.json --from ~/KernelBench
    """
    rows, on, checked_at = _recorded(file)
    with services.client(settings) as client, client.database.begin() as connection:
        if directory is not None:
            problems.add(connection, _of_folder(directory, None).problems)
        known = checks.record(connection, rows, on, checked_at)
    device = output.safe(on.device_name)
    sentence = f"{len(rows)} rows of {device}: {known} of problems that are here"
    fields = {"rows": len(rows), "known": known, "unknown": len(rows) - known}
    output.answer_out(sentence, fields, as_json=as_json)


def _recorded(file: Path) -> tuple[list[problem_check.CheckRow], checks.Device, datetime]:
    """Raises BadInputError."""
    try:
        report = json.loads(file.read_bytes())
        here = report["environment"]
        on = checks.Device(
            device_class=here["device_class"],
            device_name=here["device_name"],
            protocol=report["protocol"],
        )
        return (
            [problem_check.read(row) for row in report["rows"]],
            on,
            datetime.fromisoformat(report["checked_at"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.BadInputError(
            f"{file}: expected the output of tests.bench.sweep --json: {type(error).__name__}:"
            f" {error}"
        ) from error


def _of_folder(directory: Path, source_set: str | None) -> problem_folder.ProblemFolder:
    """Problems of a folder; files that are none are listed.  Raises BadInputError
    where there is no problem.
    """
    try:
        found = problem_folder.read(directory, source_set)
    except kernelbench.CheckoutError as error:
        raise errors.BadInputError(str(error)) from error
    if not found.problems:
        raise errors.BadInputError("\n".join(found.bad))
    for message in found.bad:
        output.err().print(output.safe(f"left out: {message}"), markup=False)
    if found.outside:
        some = ", ".join(path.as_posix() for path in found.outside[:MOST_NAMED])
        said = f"left out: {len(found.outside)} files that lie in no level"
        output.err().print(output.safe(f"{said}: {some}"), markup=False)
    if found.others:
        some = ", ".join(path.name for path in found.others[:MOST_NAMED])
        said = (
            f"left out: {len(found.others)} files that define neither"
            f" {kernelbench.NAMES.replace(' and ', ' nor ')}"
        )
        output.err().print(output.safe(f"{said}: {some}"), markup=False)
    return found


def _chosen(
    client: Client,
    given: problem_folder.ProblemFolder | None,
    source_set: str | None,
    levels: Sequence[int],
    name: str,
) -> list[Problem]:
    """The problems to check, in order.  Raises BadInputError where there is none."""
    if given is not None:
        found = [each for each in given.problems if not levels or each.level in levels]
        found = [each for each in found if name.lower() in each.name.lower()]
    else:
        with client.database.begin() as connection:
            found = checks.problems(connection, source_set=source_set, levels=levels, name=name)
    with_model = [each for each in found if not each.is_by_cases]
    if not with_model:
        what = f"source set {source_set!r}" if given is None else f"{len(given.problems)} problems"
        others = f" ({len(found)} by cases, which have no model)" if found else ""
        raise errors.BadInputError(f"{what}: expected problems to check, found none{others}")
    if len(found) > len(with_model):
        output.err().print(
            f"left out: {len(found) - len(with_model)} problems by cases, which have no model"
        )
    return with_model


def _submit(
    client: Client, chosen: Sequence[Problem], gpu: str, options: JobOptions, *, fresh: bool
) -> list[UUID]:
    """Jobs of the problems, in the order of `chosen`; they begin in a mixed one."""
    mixed = problem_check.mixed(chosen)
    requests = [
        Request(
            problem=problem,
            candidate=None,
            backend=problem_check.BACKEND,
            device_class=gpu,
            options=options,
            priority=Priority.LOW,
            fresh=fresh,
            workflow=CHECK,
        )
        for problem in mixed
    ]
    try:
        job_ids = enqueue.enqueue(client.database, client.broker, requests)
    except RequestError as error:
        raise errors.BadInputError(str(error)) from error
    by_problem = {
        problem.reference_sha256: job_id for problem, job_id in zip(mixed, job_ids, strict=True)
    }
    return [by_problem[problem.reference_sha256] for problem in chosen]


def _number_open(client: Client, job_ids: Sequence[UUID]) -> int:
    """Number of the jobs that an earlier check has not ended."""
    with client.database.begin() as connection:
        return sum(state not in TERMINAL for state in jobs.states(connection, job_ids).values())


def _gathered(
    client: Client, job_ids: Sequence[UUID], worker: services.Worker
) -> list[problem_check.CheckRow]:
    """Rows in the order of the jobs, each of which is waited for; remarks as they come."""
    found: dict[UUID, problem_check.CheckRow] = {}
    with output.progress("checking") as bar:
        task = bar.add_task("problems", total=len(set(job_ids)))
        for job_id in submit_options.over(client, set(job_ids), worker.check):
            with client.database.begin() as connection:
                found |= checks.of_jobs(connection, [job_id])
            bar.advance(task)
            if found[job_id].outcome != "passed" and bar.console.is_terminal:
                bar.console.print(output.safe(problem_check.line(found[job_id])), markup=False)
    return [found[job_id] for job_id in dict.fromkeys(job_ids)]


def _exit_code(rows: Sequence[problem_check.CheckRow]) -> int:
    outcomes = {row.outcome for row in rows}
    if "our fault" in outcomes:
        return errors.INFRASTRUCTURE
    return errors.NO if outcomes & {"accused", "blamed"} else errors.OK


def _print(rows: Sequence[problem_check.CheckRow], said: dict[str, Any]) -> None:
    """A line a problem, then the summary."""
    out = output.out()
    columns = (
        "level",
        "problem",
        "outcome",
        "took",
        "speedup over itself",
        "reference",
        "of the roofline",
        "memory",
        "why",
    )
    table = Table(*columns, box=None, pad_edge=False, header_style="dim")
    for row in rows:
        table.add_row(
            "–" if row.level is None else str(row.level),
            output.safe(row.name),
            _word(row.outcome),
            "–" if row.seconds is None else f"{row.seconds:.1f} s",
            _speedup(row),
            "–" if row.reference_us is None else f"{row.reference_us:,.0f} µs",
            "–" if row.roofline_share is None else f"{row.roofline_share:.0%}",
            "–" if row.memory is None else f"{row.memory.reference_bytes / 1e9:,.2f} GB",
            output.safe(_why(row)),
        )
    output.table_out(table)
    out.print()
    for line in _summary(said):
        out.print(line, markup=False)


def _word(outcome: str) -> str:
    style = {"passed": "green", "invalid": "yellow"}.get(outcome, "red")
    return f"[{style}]{outcome}[/]"


def _speedup(row: problem_check.CheckRow) -> str:
    if row.speedup is None:
        return "–"
    off = "" if row.holds_one else " (1.0 is outside)"
    return f"{row.speedup:.3f} \\[{row.ci_low:.3f}, {row.ci_high:.3f}]{off}"


def _why(row: problem_check.CheckRow) -> str:
    if row.error_kind:
        return (
            f"{row.error_kind}: {' '.join((row.error or '').split())[: problem_check.SHOWN_CHARS]}"
        )
    reasons = [
        *row.findings,
        *([f"{problem_check.DEGENERATE}: {row.degenerate}"] if row.degenerate else []),
    ]
    return ", ".join(reasons)


def _summary(said: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{said['problems']} problems: {said['clean']} passed and clean of {said['passed']} passed"
    )
    yield f"{said['one_in_interval']} of {said['timed']} timed have 1.0 in their interval"
    if said["degenerate"]:
        named = ", ".join(map(output.safe, said["degenerate"]))
        yield f"passed, but a right answer proves little ({problem_check.DEGENERATE}): {named}"
    for kind, count in said["kinds"].items():
        yield f"{count} × {kind}"
    for outcome in ("accused", "blamed", "our fault"):
        if said[outcome]:
            yield f"{outcome}: {', '.join(map(output.safe, said[outcome]))}"
    if said["per_minute"]:
        yield f"{said['seconds']:.0f} s, {said['per_minute']:.0f} problems a minute"
