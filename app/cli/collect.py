"""`assay collect`: models write kernels, turn by turn, and every call is on record."""

from __future__ import annotations

import getpass
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from app import embedded
from app.cli import collection_tables as tables
from app.cli import credit_options, endpoint_workers, output, services
from app.cli import errors as failures
from app.cli.group import Group
from app.cli.output_path import OutputPath
from app.client import Client
from app.domain import atif as documents
from app.domain.collection import spec as specs
from app.domain.collection.spec import CollectionSpec
from app.domain.request import MissingError
from app.export import turn_credits
from app.settings import Settings, located
from app.store.collection import dialogues, lifecycle, token_rows

POLL_S = 1.0
"""Period of the look at a collection, in seconds."""


@click.group("collect", cls=Group)
def command() -> None:
    """Collect kernels that models write, with feedback from verified evaluations,
    into trajectories.

    A specification (TOML or JSON) names problems, endpoint, strategy, sampling,
    prompts and budgets; every key is checked before anything is spent.  Add the
    endpoint first (`assay endpoint add`).

    \b
    assay collect start softmax.toml
    assay collect start softmax.toml --set strategy.turns=5 --set budgets.collection.usd=10
    assay collect status; assay collect status softmax
    assay collect pause softmax; assay collect resume softmax; assay collect stop softmax
    assay collect cost softmax --json
    assay collect tokens softmax --out rows.jsonl
    assay collect serve local --calls 64
    """


@command.command("start")
@click.argument(
    "path", metavar="SPEC", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--set",
    "changes",
    metavar="KEY=VALUE",
    multiple=True,
    help="Replace one value of the specification; KEY may have dots, VALUE is JSON or text.",
)
@click.option(
    "--check",
    "check_only",
    is_flag=True,
    help="Check the specification, print the plan, and stop.",
)
@click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Watch it until it is over."
)
@output.json_option("Print the answer as JSON.")
@click.pass_obj
def start(
    settings: Settings,
    path: Path,
    changes: tuple[str, ...],
    check_only: bool,
    wait: bool,
    as_json: bool,
) -> None:
    """Start a collection and watch it until it is over.  Ctrl-C stops watching, not the collection.

    Where no server is given, the services of this machine are started, with a worker for the
    endpoint and one for the CPU; the endpoint's key is read from the environment here.

    Started again, a collection that an endpoint has paused is resumed; one that a user has paused
    stays so.  Exit code 3: every rollout ended with a fault of the endpoint or the evaluator,
    or an endpoint paused it.
    """
    spec = read(path, changes)
    with services.client(settings) as client:
        if check_only:
            _planned(client, spec, path, as_json)
            return
        with (
            services.Worker(settings, client, spec.device_class) as device,
            services.Generators(settings, client, spec.models, device) as workers,
        ):
            name = _started(client, spec, path.parent)
            if not wait:
                _show(client.collection(name), as_json)
                return
            watch(client, name, workers.check, quiet=as_json)
        found = client.collection(name, full=True)
    tables.shown_in_full(found, as_json)
    if tables.at_fault(found):
        click.get_current_context().exit(failures.INFRASTRUCTURE)


@command.command("serve")
@click.argument("endpoint", metavar="[ENDPOINT]", required=False)
@click.option(
    "--calls",
    type=click.IntRange(1),
    help="Calls in flight at most; by default ASSAY_CALLS, else 64.",
)
@click.pass_obj
def serve(settings: Settings, endpoint: str | None, calls: int | None) -> None:
    """Call the models of one endpoint in the foreground until SIGTERM or Ctrl-C;
    without ENDPOINT, of every endpoint that has its key set, also of those that are
    added later, each in a process of its own.

    For containers and service managers: it needs ASSAY_DATABASE_URL and ASSAY_BROKER_URL, or
    services that run already (`assay up`, which serves endpoints itself), keys in its environment,
    and neither torch nor a device.
    """
    found = located(settings)
    found = replace(found, calls=calls or found.calls)
    if endpoint is None:
        endpoint_workers.serve(found)
        return
    own = replace(found, endpoint=endpoint)
    command_line = embedded.generator_command(own)
    os.execve(sys.executable, command_line, {**os.environ, **own.to_env()})  # noqa: S606 (no shell)


@command.command("status")
@click.argument("name", metavar="[COLLECTION]", required=False)
@click.option("--watch", "watching", is_flag=True, help="Go on until it is over.")
@output.json_option("Print the answer as JSON.")
@click.pass_obj
def status(settings: Settings, name: str | None, watching: bool, as_json: bool) -> None:
    """Show how far collections are: all of them, or the one of that name or id in full."""
    with services.client(settings) as client:
        if name is None:
            found = client.collections()
            output.json_out(found) if as_json else output.table_out(tables.overview(found))
            return
        if watching:
            watch(client, name, lambda: None, quiet=as_json)
        tables.shown_in_full(client.collection(name, full=True), as_json)


@command.command("cost")
@click.argument("name", metavar="COLLECTION")
@output.json_option("Print the answer as JSON.")
@click.pass_obj
def cost(settings: Settings, name: str, as_json: bool) -> None:
    """Show tokens, money, calls and errors by endpoint, and the cost of a solved problem."""
    with services.client(settings) as client:
        found = client.collection(name, full=True)
    if as_json:
        output.json_out(
            {
                key: found[key]
                for key in ("name", "spent", "reserved", "caps", "calls", "usd_per_solved")
            }
        )
        return
    output.table_out(tables.costs(found))
    click.echo(tables.counted(found))


@command.command("tokens")
@click.argument("name", metavar="COLLECTION")
@click.option("--out", type=OutputPath(), required=True, help="JSON lines.")
@click.option(
    "--unfinished", is_flag=True, help="Also rollouts that a fault, a budget or a user ended."
)
@click.option(
    "--advantages",
    metavar="METHOD",
    help="Advantages per turn and token: see assay advantages --methods.",
)
@credit_options.options(credit_options.EXPORTED)
@output.json_option()
@click.pass_obj
def tokens(
    settings: Settings,
    /,
    name: str,
    out: Path,
    unfinished: bool,
    advantages: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Write token-level rows for reinforcement learning: ids, mask, logprobs, the
    reward of every turn, group, sample.

    They need `sampling.token_ids` and a server that gives token ids (`assay endpoint
    probe`).  Turns whose prompt extends the tokens before it are one row; other
    prompts begin a row of their own.

    With --advantages, rows have them per turn and per token, computed as `assay advantages` does,
    from the collection's run unless another is named.
    """
    count = 0
    declared = credit_options.asked(advantages, options, settings.reward)
    with (
        services.client(settings) as client,
        client.database.snapshot() as connection,
        output.in_place_of(out) as file,
        output.err().status("writing rows"),
    ):
        collection = lifecycle.find(connection, name)
        if declared is not None and not declared.runs:
            declared = replace(declared, runs=(collection.spec.name,))
        by_turn = {} if declared is None else turn_credits.book(connection, declared).by_turn()
        for row in token_rows.rows(connection, collection.collection_id, unfinished=unfinished):
            more = {} if declared is None else turn_credits.token_columns(row, by_turn)
            file.write(json.dumps(row | more, allow_nan=False) + "\n")
            count += 1
        if not count:
            raise failures.BadInputError(
                f"collection {name!r}: expected calls with token ids and logprobs, got none"
            )
    fields = {"rows": count, "file": str(out)}
    output.answer_out(f"{count} rows in {out}", fields, as_json=as_json)


@command.command("atif")
@click.argument("name", metavar="RUN")
@click.option("--out", type=OutputPath(folder=True), required=True, help="Folder to make.")
@output.json_option()
@click.pass_obj
def atif(settings: Settings, name: str, out: Path, as_json: bool) -> None:
    """Write the trajectories of a collection, or of any run, in Harbor's interchange format
    (ATIF 1.7): a document each, with system prompts, feedback, and the tokens, cost, token ids
    and logprobs of collected calls.

    \b
    assay collect atif softmax --out trajectories
    assay import atif trajectories --run again
    """
    count = 0
    with (
        services.client(settings) as client,
        client.database.snapshot() as connection,
        output.folder_in_place_of(out) as folder,
    ):
        for dialogue in dialogues.of_run(connection, name):
            document = documents.document(dialogue, metadata.version("kernel-assay"))
            (folder / f"{dialogue.trajectory_id}.json").write_text(
                json.dumps(document, allow_nan=False)
            )
            count += 1
        if not count:
            raise failures.BadInputError(
                f"expected the name of a run with trajectories, got {name!r}"
            )
    fields = {"trajectories": count, "folder": str(out)}
    output.answer_out(f"{count} trajectories in {out}", fields, as_json=as_json)


def _act(action: str, done: str, doc: str) -> click.Command:
    @click.argument("name", metavar="COLLECTION")
    @output.json_option("Print the answer as JSON.")
    @click.pass_obj
    def change(settings: Settings, name: str, as_json: bool) -> None:
        with services.client(settings) as client:
            found = client.change_collection(name, action, by=getpass.getuser())
            alone = services.unserved(client, found["endpoints"]) if action == "resume" else []
        output.answer_out(f"{output.safe(found['name'])} is {done}", found, as_json=as_json)
        for endpoint in alone:
            click.echo(
                f"no worker for the endpoint {output.safe(endpoint)} is online: calls wait for one"
                f" (`assay up`, `assay collect serve {output.safe(endpoint)}`, or `assay collect"
                " start` with the specification again)",
                err=True,
            )

    change.__doc__ = doc
    return command.command(action)(change)


pause = _act("pause", "paused", "Begin no further call; calls and evaluations on their way end.")
resume = _act(
    "resume",
    "running",
    "Go on with a paused collection: its decisions are those that it would have made.",
)
stop = _act("stop", "stopped", "End a collection for good; everything collected stays.")


def read(path: Path, changes: tuple[str, ...]) -> CollectionSpec:
    """The specification in a file, with changes.  Raises RequestError that names the key."""
    value = specs.mapping_of(failures.text_of(path), toml=path.suffix.lower() != ".json")
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise failures.BadInputError(f"--set: expected KEY=VALUE, got {change!r}")
        specs.put(value, key.strip(), text.strip())
    return specs.parse(value)


def watch(client: Client, name: str, check: Callable[[], None], *, quiet: bool) -> None:
    """Draw a bar, or write lines without a terminal, until the collection is over."""
    columns = (
        TextColumn("{task.fields[state]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
    )
    console = output.err()
    drawn = console.is_terminal and not quiet
    lines = output.Lines()
    with Progress(*columns, console=console, transient=True, disable=not drawn) as bar:
        task = bar.add_task("", total=None, state="starting", figures="")
        while True:
            check()
            found = client.collection(name)
            bar.update(
                task,
                total=found["rollouts"],
                completed=found["rollouts_stopped"],
                state=found["state"] + tables.waits(found),
                figures=tables.short(found),
            )
            if found["state"] != "running":
                return
            if not drawn and not quiet:
                lines.tell(tables.line(found))
            time.sleep(POLL_S)


def _planned(client: Client, spec: CollectionSpec, path: Path, as_json: bool) -> None:
    found = client.plan_collection(spec.as_json(), folder=path.parent)
    if as_json:
        output.json_out(found)
        return
    problems, sources = found["problems"], found["sources"]
    alike = "" if sources == problems else f" of {sources} different sources"
    click.echo(
        f"{problems} problems{alike}, {found['rollouts']} rollouts of at most"
        f" {found['attempts_each']} attempts; endpoints {', '.join(found['endpoints'])}; prompts"
        f" {', '.join(found['prompts'].values())}"
    )


def _started(client: Client, spec: CollectionSpec, folder: Path) -> str:
    """Id of the collection, started, or resumed where an endpoint has paused it."""
    try:
        paused = tables.paused_by_endpoint(before := client.collection(spec.name))
    except MissingError:
        paused = False
    name = str(client.collect(spec.as_json(), folder=folder))
    if paused:
        click.echo(f"resumed; paused before by {output.safe(before['reason'])}", err=True)
        client.change_collection(name, "resume", by=getpass.getuser())
    return name


def _show(found: dict[str, Any], as_json: bool) -> None:
    name = f"{output.safe(found['name'])} ({found['collection_id']})"
    output.answer_out(f"{name}: {found['rollouts']} rollouts", found, as_json=as_json)
