"""Options and helpers of the verbs that submit and wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import click

from app import routing, workflows
from app.cli import errors
from app.cli.number_range import NumberRange
from app.client import Client, Submission
from app.domain.backend import BACKENDS, DEFAULT_BACKEND
from app.domain.job import (
    BASELINES,
    BOUNDS,
    PROFILES,
    PROTOCOLS,
    REWARD_BUDGET_S,
    WHOLE,
    JobOptions,
    JobState,
    Priority,
)
from app.domain.policy import POLICIES
from app.domain.problem import Problem
from app.domain.request import Request

CHECK_S = 5.0
"""Period of the check, while waiting, that a worker is online, in seconds."""

F = TypeVar("F", bound=Callable[..., Any])
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_DEFAULTS = JobOptions()


def _within(name: str) -> click.ParamType[Any]:
    """Type of a numeric option of a job: refused values are reported under the command line's own
    name, which is not the job's for each (`--calls`).
    """
    low, high = BOUNDS[name]
    return click.IntRange(int(low), int(high)) if name in WHOLE else NumberRange(low, high)


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--fresh", is_flag=True, help="Evaluate again although the same was submitted before."
    ),
    click.option(
        "--call-timeout",
        "call_timeout_s",
        type=_within("call_timeout_s"),
        default=_DEFAULTS.call_timeout_s,
        show_default=True,
        help=(
            "Time limit of one call, and of loading, in seconds; on a GPU three times as long for"
            " the first call."
        ),
    ),
    click.option(
        "--deadline",
        "deadline_s",
        type=_within("deadline_s"),
        default=_DEFAULTS.deadline_s,
        show_default=True,
        help="Time limit of the whole evaluation, in seconds.",
    ),
    click.option(
        "--timing-budget",
        "timing_budget_s",
        type=_within("timing_budget_s"),
        default=_DEFAULTS.timing_budget_s,
        show_default=True,
        help=(
            "Seconds of device time for timing; 0 checks correctness only. Rewards of trainers use"
            f" {REWARD_BUDGET_S}: several times as many evaluations, with wider intervals."
        ),
    ),
    click.option(
        "--calls",
        "correctness_calls",
        type=_within("correctness_calls"),
        default=_DEFAULTS.correctness_calls,
        show_default=True,
        help=(
            "Untimed calls on fresh inputs, before those on unusual inputs; timed calls are"
            " verified as well."
        ),
    ),
    click.option(
        "--rtol",
        type=_within("rtol"),
        help="Relative tolerance, with --atol: |x - R| <= atol + rtol*|R|, R being fp64.",
    ),
    click.option(
        "--atol",
        type=_within("atol"),
        help=(
            "Absolute tolerance, with --rtol; in place of Assay's limits (multiples of the"
            " reference's own error)."
        ),
    ),
    click.option(
        "--protocol",
        type=click.Choice(PROTOCOLS),
        default=_DEFAULTS.protocol,
        show_default=True,
        help="kernelgym: also report the number that KernelGYM would have printed.",
    ),
    click.option(
        "--baseline",
        "baselines",
        type=click.Choice(BASELINES),
        multiple=True,
        help="Also time the reference compiled by torch.compile; may be given twice.",
    ),
    click.option(
        "--device-time",
        "device_time",
        is_flag=True,
        help=(
            "Also measure the speedup by the device's own time, from CUDA graphs. Takes as long as"
            " timing again."
        ),
    ),
    click.option(
        "--profile",
        type=click.Choice(PROFILES),
        default=_DEFAULTS.profile,
        show_default=True,
        help=(
            "full: the driver's profiler also for candidates that claim no kernels (backend torch)."
        ),
    ),
    click.option(
        "--policy",
        type=click.Choice(list(POLICIES)),
        default=_DEFAULTS.policy,
        show_default=True,
        help="Policy of the verdict (`assay judge --help`).",
    ),
    click.option(
        "--priority",
        type=click.Choice([str(p) for p in Priority]),
        default="normal",
        show_default=True,
        help="Place in the queue; a long wait raises it.",
    ),
    click.option(
        "--run", help="Name of the run that the job belongs to; runs share the devices fairly."
    ),
    click.option(
        "--device",
        metavar="NODE[.INDEX]",
        help="Use only that device, or any device of that host (`assay workers` lists them).",
    ),
    click.option(
        "--gpu",
        default="cpu",
        show_default=True,
        help=f"Device class: {', '.join(routing.DEVICE_CLASSES)}.",
    ),
    click.option(
        "--backend",
        default=DEFAULT_BACKEND,
        show_default=True,
        help=f"Backend of the candidate: {', '.join(BACKENDS)}.",
    ),
    click.option(
        "--workflow",
        default=Request.workflow,
        show_default=True,
        help=(
            "Form of the problem.  kernelbench: REFERENCE defines a Model to compare with. "
            " kernel_simple: it defines get_cases(), inputs with their expected outputs; chosen by"
            " itself if there is no Model."
        ),
    ),
)
"""Options of a candidate; `--help` lists them from the last to the first."""


def options(function: F) -> F:
    """Add the options of a candidate."""
    for option in _OPTIONS:
        function = option(function)
    return function


def submission_options(function: F) -> F:
    """A reference, a candidate, and their options."""
    function = options(function)
    function = click.argument("candidate", type=FILE)(function)
    return click.argument("reference", type=FILE)(function)


def submission(reference: Path, candidate: Path, **chosen: Any) -> Submission:
    """Submission read from the files."""
    named = [field.name for field in fields(JobOptions)]
    options = {name: chosen.pop(name) for name in named if name in chosen}
    return Submission(
        reference=Problem(name=reference.stem, reference=reference.read_bytes()),
        candidate=candidate.read_bytes(),
        options=options,
        **chosen,
    )


def checked(wanted: Submission) -> Submission:
    """The submission, checked before anything is started for it.  Raises ValueError for unknown
    names, for options out of range, and for a problem that its workflow cannot plan.
    """
    workflows.plan(wanted.request())
    routing.queue_for(wanted.gpu, wanted.device)
    return wanted


def over(client: Client, pending: set[UUID], check: Callable[[], None]) -> Iterator[UUID]:
    """Each of the jobs, once, as they come to their end; it leaves `pending` then.  Jobs that are
    added to `pending` between two of them are waited for, too.

    `check` is called every CHECK_S seconds or so, and raises where waiting has become pointless.
    """
    while pending:
        check()
        asked = frozenset(pending)
        with suppress(TimeoutError):
            for job_id in client.over(asked, timeout_s=CHECK_S):
                pending.discard(job_id)
                yield job_id
                if not pending <= asked:
                    break


@contextmanager
def withdrawn_if_interrupted(client: Client, job_ids: Iterable[UUID]) -> Iterator[None]:
    """Withdraw the jobs where Ctrl-C or SIGTERM ends the wait for them: without this command, their
    results have no reader.  A job that others submitted, too, goes on.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        for job_id in job_ids:
            client.cancel(job_id)
        raise


def exit_code(result: Mapping[str, Any]) -> int:
    """0: passed and not a hack; 3: the job failed by Assay's fault; 1: anything else."""
    if result["state"] == JobState.FAILED:
        return errors.INFRASTRUCTURE
    return errors.OK if result["status"] == "passed" and result["verdict"] != "hack" else errors.NO
