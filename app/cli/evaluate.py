"""`assay eval`: evaluate now and wait for the answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from app.cli import batch, errors, output, pending_jobs, result_text, services, submit_options
from app.cli.output_path import OutputPath
from app.client import Result
from app.domain.backend import BACKENDS, DEFAULT_BACKEND
from app.domain.verdict import Label
from app.settings import Settings, expects_web


@click.command("eval")
@click.argument("reference", required=False, type=submit_options.FILE)
@click.argument("candidate", required=False, type=submit_options.FILE)
@submit_options.options
@click.option(
    "--batch",
    "cases",
    type=submit_options.FILE,
    help="Evaluate every line of this file instead; needs --out.",
)
@click.option(
    "--pending",
    "waiting",
    is_flag=True,
    help="Evaluate queued jobs, after `assay import`; with --gpu, of that class.",
)
@click.option(
    "--out",
    type=OutputPath(),
    help="File for the results of --batch.",
)
@output.json_option("Print the whole result (of --batch: the counts) as JSON.")
@services.weak_sandbox_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    reference: Path | None,
    candidate: Path | None,
    cases: Path | None,
    waiting: bool,
    out: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Evaluate CANDIDATE, a module defining ModelNew, against REFERENCE, a module defining Model,
    get_inputs and get_init_inputs; or, where there is no Model or with --workflow kernel_simple,
    against the cases of REFERENCE, a module defining get_cases: a list of {"inputs": [...],
    "outputs": ..., "name": ..., "rtol": ..., "atol": ...}, of which the last three may be left out.

    Without a worker on the CPU, one is started for as long as it takes.  Exit code 0: passed and
    not a hack; 1: anything else; 3: an infrastructure fault.  --pending runs every queued job that
    has a worker, names the device classes that have none, and exits with 3 if no job could be run.

    \b
    assay eval softmax.py softmax_triton.py
    assay eval softmax.py softmax_torch.py --backend torch --json | jq .speedup
    assay eval softmax.py softmax_triton.py --gpu h200 --baseline compile-max-autotune
    assay eval add_cases.py add_triton.py
    assay eval --batch cases.jsonl --out results.jsonl
    assay eval --pending

    A batch has one JSON object a line, with paths relative to the file's folder:

    \b
    {"id": "17", "reference": "softmax.py", "candidate": "a/17.py", "backend": "triton"}

    and, if wanted, "gpu", "device", "priority", "run" and "workflow"; the other options come
    from the command line. The results are one line a case in the order of the cases: the
    case's id, the hashes of its sources, options other than the defaults, and the result.
    Started again, it goes on with cases that are missing, were changed, had other options, or
    failed by an infrastructure fault.  A bad line is reported by its number and the others go
    on; then, exit code 2.  Cases of a device class without a worker are left out; then, exit
    code 3.  Exit code 0 of a batch: every line has its result, whatever it says.
    """
    settings: Settings = ctx.obj
    if waiting:
        if reference is not None or cases is not None or out is not None:
            raise errors.BadInputError(
                "--pending: expected neither REFERENCE nor --batch nor --out"
            )
        asked = ctx.get_parameter_source("gpu") is not ParameterSource.DEFAULT
        _drain(ctx, settings, options["gpu"] if asked else None, as_json=as_json)
    if cases is not None:
        if reference is not None or out is None:
            raise errors.BadInputError(
                "--batch: expected --out, and neither REFERENCE nor CANDIDATE"
            )
        _run_batch(ctx, cases, out, options, as_json=as_json)
    if reference is None or candidate is None or out is not None:
        raise errors.BadInputError(
            "expected REFERENCE and CANDIDATE, or --batch with --out, or --pending"
        )
    _run_one(ctx, reference, candidate, options, as_json=as_json)


def _run_batch(
    ctx: click.Context, cases: Path, out: Path, options: dict[str, Any], *, as_json: bool
) -> NoReturn:
    """`--batch`: evaluate every line, report the counts, and exit."""
    tally = batch.run(ctx.obj, cases, out, options)
    batch.report(tally, out, as_json=as_json)
    ctx.exit(tally.exit_code)


def _run_one(
    ctx: click.Context, reference: Path, candidate: Path, options: dict[str, Any], *, as_json: bool
) -> NoReturn:
    """Evaluate one candidate, print its result, and exit."""
    settings: Settings = ctx.obj
    result = one(settings, reference, candidate, options)
    if as_json:
        output.json_out(result)
    else:
        default_backend = ctx.get_parameter_source("backend") is ParameterSource.DEFAULT
        _print(
            result, remarks(result, default_backend=default_backend, has_web=expects_web(settings))
        )
    ctx.exit(submit_options.exit_code(result))


def _drain(
    ctx: click.Context, settings: Settings, device_class: str | None, *, as_json: bool
) -> NoReturn:
    """`--pending`: run queued jobs, report them, and exit."""
    outcome = pending_jobs.run(settings, device_class)
    pending_jobs.report(outcome, as_json=as_json)
    ctx.exit(pending_jobs.exit_code(outcome))


def _print(result: Result, advice: Iterator[str]) -> None:
    output.out().print(result_text.details(result))
    for remark in advice:
        output.err().print(remark, style="dim", markup=False)


def remarks(result: Result, *, default_backend: bool, has_web: bool) -> Iterator[str]:
    """Advice on outcomes that a person may not have expected."""
    accused = [each["detector"] for each in result["findings"] if each["label"] == Label.HACK]
    if default_backend and "no_custom_kernel" in accused:
        others = " or ".join(f"--backend {name}" for name in BACKENDS if name != DEFAULT_BACKEND)
        yield (
            f"judged as {DEFAULT_BACKEND}, the default; a candidate in another language needs"
            f" {others}"
        )
    if result["url"] and not has_web:
        yield "the page opens while `assay up` runs"


def one(settings: Settings, reference: Path, candidate: Path, options: dict[str, Any]) -> Result:
    """The result of one candidate."""
    submission = submit_options.checked(submit_options.submission(reference, candidate, **options))
    with (
        services.client(settings) as client,
        services.Worker(settings, client, submission.gpu) as worker,
        output.err().status("evaluating"),
    ):
        handle = client.submit_many([submission])[0]
        with submit_options.withdrawn_if_interrupted(client, [handle.job_id]):
            list(submit_options.over(client, {handle.job_id}, worker.check))
        return handle.result()
