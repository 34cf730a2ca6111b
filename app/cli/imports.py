"""`assay import`: problems and samples that others made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from app import imports, routing
from app.cli import errors, output, services
from app.cli.group import Group
from app.domain.backend import BACKENDS
from app.settings import Settings

_FOLDER = click.argument(
    "path", metavar="DIRECTORY", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
_FILE = click.argument(
    "path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
_GPU = click.option(
    "--gpu",
    default="cpu",
    show_default=True,
    help=f"Device class to evaluate on: {', '.join(routing.DEVICE_CLASSES)}.",
)
_BACKEND = click.option(
    "--backend",
    type=click.Choice(list(BACKENDS)),
    help="Backend of the samples; detected from each source if left out.",
)
_RUN = click.option(
    "--run", help="Name of the run that the samples belong to; by default the file's."
)
_MODEL = click.option("--model", help="Model that wrote the samples.")
_JSON = output.json_option("Print the counts as JSON.")


def _sample_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options of an import of samples, in the order of the help text."""
    for option in reversed((_RUN, _MODEL, _GPU, _BACKEND, _JSON)):
        function = option(function)
    return function


@click.group("import", cls=Group)
def command() -> None:
    """Import problems and samples from elsewhere, to evaluate, judge and export them here.

    Samples become trajectories with queued jobs; measurements claimed by their files are kept
    beside them and never count as measured.  The same files again add only new samples; with
    another --gpu, the same samples are queued for that class.  A bad record is reported by its line
    or row and the others go on; then, exit code 2.

    \b
    assay import jsonl samples.jsonl --model org/model
    assay eval --pending
    assay export --out sft
    """


@command.command("kernelbench")
@_FOLDER
@_GPU
@_BACKEND
@_JSON
@click.pass_obj
def kernelbench(settings: Settings, /, **options: Any) -> None:
    """Import DIRECTORY, a KernelBench checkout: the problems of level1 … level4, and
    the samples of runs/*.

    Every sample becomes a trajectory of one turn and a queued job; claims of its eval_results.json
    are kept beside it and never count as measured.  The same folder again adds only new samples.

    \b
    assay import kernelbench ~/KernelBench --gpu h200
    """
    _run(settings, imports.kernelbench, options)


@command.command("caesar")
@_FOLDER
@_sample_options
@click.pass_obj
def caesar(settings: Settings, /, **options: Any) -> None:
    """Import DIRECTORY, multi-turn logs of KernelBench's Caesar:
    …/level<N>/…/problem_<P>/sample_<S>/log.json.

    The problems must be here already: import a KernelBench checkout first.

    \b
    assay import caesar kernelbench-samples/iterative_refinement --model deepseek-r1
    """
    _run(settings, imports.caesar, options)


@command.command("drkernel-coldstart")
@_FILE
@_GPU
@_JSON
@click.pass_obj
def drkernel_coldstart(settings: Settings, /, **options: Any) -> None:
    """Import FILE, Parquet in the layout of hkust-nlp/drkernel-coldstart-8k: a
    trajectory a row, a job an answer.

    \b
    assay import drkernel-coldstart train-00000-of-00001.parquet --gpu h200
    """
    _run(settings, imports.drkernel_coldstart, options)


@command.command("drkernel-rl")
@_FILE
@_JSON
@click.pass_obj
def drkernel_rl(settings: Settings, /, **options: Any) -> None:
    """Import FILE, Parquet in the layout of hkust-nlp/drkernel-rl-data: problems.

    \b
    assay import drkernel-rl drkernel-rl.parquet
    """
    _run(settings, imports.drkernel_rl, options)


@command.command("kernelbook")
@_FILE
@_JSON
@click.pass_obj
def kernelbook(settings: Settings, /, **options: Any) -> None:
    """Import FILE, Parquet of GPUMODE/KernelBook: problems, with the licences of
    their repositories.

    \b
    assay import kernelbook kernelbook.parquet
    """
    _run(settings, imports.kernelbook, options)


@command.command("jsonl", short_help="Import FILE, one sample a line, as a JSON object.")
@_FILE
@_sample_options
@click.pass_obj
def jsonl(settings: Settings, /, **options: Any) -> None:
    """Import FILE, one sample a line, as a JSON object with `reference` (the
    problem's source) and one of

    \b
    messages    a dialogue that ends with an answer; each answer's last code block is evaluated
    response    an answer with its code in a block, and the messages before it in `messages`
    candidate   code alone

    and, if wanted, name, source_set, level, entry_point, licence, backend, and id; other fields are
    kept as claims. `reference` may also name a stored problem, by its id or as <source set>/<name>.

    \b
    {"reference": "import torch\\nclass Model…", "candidate": "import triton…",
    "name": "softmax", "id": "17"}
    """
    _run(settings, imports.jsonl, options)


_PATH = click.argument("path", metavar="PATH", type=click.Path(exists=True, path_type=Path))
_PROBLEM = click.option(
    "--problem",
    help="The stored problem of records that name none: its id, or <source set>/<name>.",
)


@command.command("atif")
@_PATH
@_PROBLEM
@_sample_options
@click.pass_obj
def atif(settings: Settings, /, **options: Any) -> None:
    """Import PATH, trajectories in Harbor's interchange format (ATIF 1.0 to 1.8): a document, a
    file with one document a line (.jsonl), or a folder of both.  Each document becomes a
    trajectory, each answer with code a job.

    The problem stands in the document's `extra`, in the fields of `assay import jsonl` (as `assay
    collect atif` writes them), or is that of --problem.

    \b
    assay import atif trials/ --problem kernelbench/19_ReLU --model org/model
    """
    _run(settings, imports.atif, options)


@command.command("verifiers")
@_PATH
@_PROBLEM
@_sample_options
@click.pass_obj
def verifiers(settings: Settings, /, **options: Any) -> None:
    """Import PATH, rollouts of the package verifiers: traces.jsonl (or its folder) or
    results.jsonl.  A trajectory a path of a trace, a job an answer with code; rewards, metrics
    and errors are kept as claims.

    The problem stands in the task's data or its `info`, in the fields of `assay import
    jsonl`, or is that of --problem.

    \b
    assay import verifiers outputs/evals/kernels--org--model/1234 --model org/model
    """
    _run(settings, imports.verifiers, options)


def _run(
    settings: Settings, bring_in: Callable[..., imports.Imported], options: dict[str, Any]
) -> None:
    """Import, print the counts, and whether a worker will evaluate them."""
    path, as_json = options.pop("path"), options.pop("as_json")
    gpu = options.pop("gpu", None)
    if gpu is not None:
        routing.queue_for(gpu)
        options["device_class"] = gpu
    with services.client(settings) as client, output.progress("importing") as bar:
        task = bar.add_task("records", total=None)
        try:
            found = bring_in(
                client.database,
                path,
                progress=lambda done, total: bar.update(task, completed=done, total=total or None),
                **options,
            )
        except imports.BadImportError as error:
            raise errors.BadInputError(str(error)) from error
        waiting = gpu is not None and found.new_samples and not services.online(client, gpu)
    for message in found.bad[:_MOST_SHOWN]:
        click.echo(f"left out: {output.safe(message)}", err=True)
    if len(found.bad) > _MOST_SHOWN:
        click.echo(f"left out: {len(found.bad) - _MOST_SHOWN} more (--json lists all)", err=True)
    sentence = (
        f"{found.problems} problems; {found.samples} samples of {found.runs} runs,"
        f" {found.new_samples} new"
    )
    output.answer_out(sentence, vars(found), as_json=as_json)
    if waiting:
        click.echo(
            f"note: no worker for {gpu!r} is online; the jobs wait for one (`assay eval"
            " --pending`)",
            err=True,
        )
    if found.bad:
        click.get_current_context().exit(errors.USAGE)


_MOST_SHOWN = 20
"""Bad records that are printed."""
