"""The command `assay`: one module per verb, loaded when it is asked for, so that
`assay --version` and `assay --help` answer at once.

Exit codes, the same for every verb:

    0  ok
    1  the answer is no: not passed, a hack, an unexpected verdict, a dataset that does not verify
    2  usage or bad input
    3  infrastructure: a server, a worker or this program failed; no kernel is to blame
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

import click

from app.cli import errors
from app.cli.group import Group
from app.settings import ARROW_POOL, Settings

__all__ = ["main"]

if (
    sys.platform == "linux"
):  # Arrow reads it when it is loaded, which is with the first verb that needs it
    os.environ.setdefault(*ARROW_POOL)

VERBS = {
    "demo": ("demo", "Evaluate the samples, export a dataset, say where everything is."),
    "up": ("up", "Run servers, web UI and workers until Ctrl-C."),
    "eval": ("evaluate", "Evaluate one candidate, or a file of them, now."),
    "submit": ("submit", "Queue a candidate and do not wait."),
    "status": ("status", "Print the states of jobs."),
    "result": ("result", "Print a job's result."),
    "cancel": ("cancel", "Take jobs out of the queue, or stop them."),
    "collect": ("collect", "Collect kernels from models: start, watch, pause, resume, stop."),
    "judge": ("judge", "Judge stored evaluations again, without a device."),
    "zoo": ("zoo", "Evaluate the sample cheats and honest kernels as a regression test."),
    "export": ("export", "Write a dataset of evaluations."),
    "verify": ("verify", "Prove that a dataset matches its manifest."),
    "datasets": ("datasets", "List datasets, and those that are stale."),
    "reviews": ("reviews", "List, add and take back reviews of evaluations."),
    "reproduce": ("reproduce", "Make a dataset again from its manifest."),
    "report": ("report", "fast_p, pass@k and hack rates of runs."),
    "advantages": ("advantages", "Advantages of stored turns by an RL method."),
    "mismatch": (
        "mismatch",
        "Distance of trainer and rollout engine, and the turns that rejection drops.",
    ),
    "import": ("imports", "Import problems and samples from elsewhere."),
    "problems": ("problems", "Check which problems can be evaluated on a device."),
    "tests": ("tests", "Rank the inputs of a problem by how well they tell candidates apart."),
    "endpoint": ("endpoint", "Add, list and probe model servers for collections."),
    "prompt": ("prompt", "Show, add and compare prompt templates."),
    "workers": ("workers", "List, run, drain, quarantine and resume workers."),
    "user": ("user", "Add, list and change users."),
    "token": ("api_token", "Make, list and revoke API tokens."),
    "db": ("db", "Upgrade, back up, restore and prune the database."),
    "doctor": ("doctor", "Check everything and name remedies."),
}
"""Verb → module of this package, whose `command` it is, and its line in `--help`; in the order in
which `--help` lists them.
"""


class _Assay(Group):
    """Loads verbs late and says every error in one line, `error: expected …, got …`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's)
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        module, summary = VERBS[cmd_name]
        command: click.Command = import_module(f"app.cli.{module}").command
        command.short_help = summary  # for the completion of a shell
        return command

    def summary(self, ctx: click.Context, name: str) -> str:  # noqa: ARG002 (the group's)
        """Line of a verb in `--help`, without its module: to import all takes seconds."""
        return VERBS[name][1]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if errors.is_unread(error):
                errors.end_unread()
            if ctx.params["debug"]:
                raise
            raise errors.translate(error) from error

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        try:
            code = super().main(args, prog_name or "assay", **{**extra, "standalone_mode": False})
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(errors.USAGE)
        except click.ClickException as error:
            click.echo(f"error: {error.format_message()}", err=True)
            sys.exit(error.exit_code)
        except click.Abort:
            click.echo("interrupted", err=True)
            sys.exit(130)
        except BrokenPipeError as error:
            if not errors.is_unread(error):
                raise
            errors.end_unread()
        sys.exit(code if isinstance(code, int) else errors.OK)


@click.group(
    cls=_Assay, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(version("kernel-assay"), prog_name="assay")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def main(ctx: click.Context, debug: bool) -> None:  # noqa: ARG001 (read by _Assay.invoke)
    """Evaluate GPU kernels written by language models, and make training data of the credible ones.

    \b
    assay demo                        the whole pipeline on one machine, in a few minutes
    assay up                          services, workers and web UI until Ctrl-C
    assay eval REFERENCE CANDIDATE    one candidate, now
    assay export --where … --out DIR  a dataset of evaluations

    Settings are environment variables, ASSAY_DATABASE_URL and ASSAY_BROKER_URL first; without these
    two, the servers of this machine are used (ASSAY_STATE_DIR, started when needed).

    Exit codes: 0 ok, 1 the answer is no, 2 usage or bad input, 3 infrastructure.
    """
    ctx.obj = Settings.from_env()
