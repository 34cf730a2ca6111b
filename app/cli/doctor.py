"""`assay doctor`: check this machine and its services, with the remedy for every fault."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.text import Text

from app.cli import diagnostics, errors, output
from app.cli.doctor_check import Check, CheckStatus
from app.settings import Settings

_STYLES = {
    CheckStatus.OK: "green",
    CheckStatus.WARN: "yellow",
    CheckStatus.FAIL: "bold red",
    CheckStatus.SKIP: "dim",
}


@click.command("doctor")
@output.json_option("Print the checks as JSON.")
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too.")
@click.pass_context
def command(ctx: click.Context, as_json: bool, strict: bool) -> None:
    """Check this machine and the services that it uses: Python and libraries, GPU and driver, the
    sandbox (by attempting acts forbidden to candidates), disk, database and its tables, clocks,
    broker, workers, queues, endpoints of models with their workers and probes, web.

    Starts nothing and changes nothing.  Exit code 0 if nothing fails, else 1.

    \b
    assay doctor
    assay doctor --json
    ASSAY_DATABASE_URL=postgresql+psycopg://assay:…@db/assay
    ASSAY_BROKER_URL=redis://… assay doctor --strict
    """
    settings: Settings = ctx.obj
    checks = []
    for check in diagnostics.run(settings):
        checks.append(check)
        if not as_json:
            output.out().print(_line(check))
    bad = {CheckStatus.FAIL, CheckStatus.WARN} if strict else {CheckStatus.FAIL}
    failed = [check for check in checks if check.outcome in bad]
    if as_json:
        output.json_out({"ok": not failed, "checks": [asdict(check) for check in checks]})
    ctx.exit(errors.NO if failed else errors.OK)


def _line(check: Check) -> Text:
    line = Text.assemble(
        (f"{check.outcome:<6}", _STYLES[check.outcome]),
        f"{check.name:<18}",
        output.safe(check.found),
    )
    if check.todo:
        line.append(f"\n{'':<24}→ {output.safe(check.todo)}", style="dim")
    return line
