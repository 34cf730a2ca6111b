"""`assay zoo`: hold the system to the sample candidates of a checkout: cheats
caught, honest kernels accused.
"""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

import app
from app.cli import errors, output, services, submit_options
from app.cli.group import Renamed
from app.client import Client, Submission
from app.domain import policy as policies
from app.domain import zoo, zoo_report
from app.domain.problem import Problem
from app.domain.zoo import Case, ZooError, disagreement
from app.settings import Settings

__all__ = ["Case", "cases", "command", "disagreement"]

PACKAGED = Path(app.__file__).parent / "samples"
"""Samples of the demo in an installed wheel (setup.py)."""

TIMING_BUDGET_S = 0.4
"""Timing budget of a sample: the differences are large."""
DEADLINE_S = 60.0
CALL_TIMEOUT_S = 10.0
"""Shorter than the defaults: the zoo has endless loops."""


def cases(folder: Path | None = None) -> dict[str, Case]:
    """Every sample by name, in order.  Raises BadInputError where there is none, or
    one is malformed.
    """
    folders = (
        [folder]
        if folder
        else [*(parent / "tests" / "zoo" for parent in (_root(), Path.cwd())), PACKAGED]
    )
    for each in folders:
        if (each / "problems").is_dir():
            try:
                return {case.name: case for case in zoo.cases(each)}
            except ZooError as error:
                raise errors.BadInputError(str(error)) from error
    expected = " or ".join(map(str, folders))
    raise errors.BadInputError(f"no samples: expected {expected} with problems/ in it")


def _root() -> Path:
    return Path(app.__file__).parents[1]


@click.command("zoo")
@click.argument("prefixes", metavar="[NAME]…", nargs=-1)
@click.option(
    "--group",
    "groups",
    multiple=True,
    type=click.Choice(zoo.GROUPS),
    help="Only samples of this group; may be repeated.",
)
@click.option(
    "--gpu",
    "--device",
    "device_class",
    cls=Renamed,
    default="cpu",
    show_default=True,
    help="Device class: cpu, h200 …",
)
@click.option(
    "--policy",
    type=click.Choice(list(policies.POLICIES)),
    default=policies.DEFAULT.name,
    show_default=True,
    help="Policy of the verdicts; the files' first lines are written for the default.",
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with problems/, honest/, wrong/, broken/, hacks/; else the checkout's own.",
)
@output.json_option("Print the score and every row as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    prefixes: tuple[str, ...],
    groups: tuple[str, ...],
    device_class: str,
    policy: str,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Evaluate the sample candidates through the whole system and print the fate of each cheat, and
    which honest candidates were accused.

    Every sample's first line states the expected result; one that needs another kind
    of device is left out.  Exit code 0: all came out as they say; 1: some did not;
    3: some failed by Assay's fault.

    \b
    assay zoo
    assay zoo --group hacks --json | jq .recall
    assay zoo --gpu h200 honest/layer_norm
    """
    settings: Settings = ctx.obj
    chosen = [
        case
        for case in cases(folder).values()
        if case.runs_on(device_class)
        and (not groups or case.group in groups)
        and (not prefixes or case.name.startswith(prefixes))
    ]
    if not chosen:
        raise errors.BadInputError(
            f"no sample begins with {' or '.join(prefixes) or ' or '.join(groups)}"
        )
    with (
        services.client(settings) as client,
        services.Worker(settings, client, device_class) as worker,
    ):
        total = _evaluated(client, worker, chosen, device_class, policy)
    output.json_out(total.as_json()) if as_json else _report(total)
    ctx.exit(_exit_code(total))


def _evaluated(
    client: Client, worker: services.Worker, chosen: list[Case], device_class: str, policy: str
) -> zoo_report.Score:
    """Submit all and take each into account as it comes to its end."""
    submissions = [
        submit_options.checked(_submission(case, device_class, policy)) for case in chosen
    ]
    handles = client.submit_many(submissions)
    case_of = {handle.job_id: case for handle, case in zip(handles, chosen, strict=True)}
    found: dict[str, zoo_report.ZooResult] = {}
    with (
        submit_options.withdrawn_if_interrupted(client, list(case_of)),
        output.progress("evaluating") as bar,
    ):
        task = bar.add_task("candidates", total=len(chosen))
        for job_id in submit_options.over(client, set(case_of), worker.check):
            case = case_of[job_id]
            found[case.name] = zoo_report.outcome(case, client.results([job_id])[0], device_class)
            bar.advance(task)
    return zoo_report.Score(outcomes=tuple(found[case.name] for case in chosen))


def _submission(case: Case, device_class: str, policy: str) -> Submission:
    return Submission(
        reference=Problem(name=case.problem, reference=case.reference, source_set="samples"),
        candidate=case.candidate,
        backend=case.backend,
        gpu=device_class,
        fresh=True,  # the current system's answer, not a stored one
        options={
            "timing_budget_s": TIMING_BUDGET_S,
            "call_timeout_s": CALL_TIMEOUT_S,
            "deadline_s": DEADLINE_S,
            "policy": policy,
        },
    )


def _report(total: zoo_report.Score) -> None:
    """The table, the figures, and every candidate that came out otherwise."""
    console = output.out()
    for line in total.lines():
        console.print(Text(line))
    for one in total.outcomes:
        if one.disagreement:
            console.print(Text(f"✗ {one.case.name}: {one.disagreement}", style="red"))
    agreed = sum(one.disagreement is None for one in total.outcomes)
    console.print(Text(f"{agreed} of {len(total.outcomes)} as their first lines say"))


def _exit_code(total: zoo_report.Score) -> int:
    if any(one.fate == zoo_report.FAILED for one in total.outcomes):
        return errors.INFRASTRUCTURE
    return errors.NO if any(one.disagreement for one in total.outcomes) else errors.OK
