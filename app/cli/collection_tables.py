"""Tables and lines that tell of collections on a terminal."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import Any

import click
from rich.table import Table

from app.cli import output
from app.collect import report
from app.domain.collection.states import CollectionState
from app.domain.collection.stop_reasons import FAULTS


def short(found: dict[str, Any]) -> str:
    """Amounts spent so far and attempts on their way, for a progress bar."""
    spent = found["spent"]
    on_their_way = {key: found["attempts"].get(key, 0) for key in ("calling", "evaluating")}
    return (
        f"{spent['calls']} calls, {spent['tokens']:,} tokens, ${spent['usd']:.2f}, "
        f"{on_their_way['calling']} calling, {on_their_way['evaluating']} evaluating"
    )


def line(found: dict[str, Any]) -> str:
    """State and progress in one line, for a log."""
    rollouts = f"{found['rollouts_stopped']} of {found['rollouts']} rollouts"
    return f"{found['state']}{waits(found)}: {rollouts}, {short(found)}"


def shown_in_full(found: dict[str, Any], as_json: bool) -> None:
    """Print a collection with its cost and quality."""
    if as_json:
        output.json_out(found)
        return
    quality = found["quality"]
    table = Table(box=None, pad_edge=False, show_header=False)
    state = (
        found["state"]
        + (f": {output.safe(found['reason'])}" if found["reason"] else "")
        + waits(found)
    )
    ends = (
        ", ".join(f"{reason} {count}" for reason, count in sorted(found["ends"].items()))
        or "none yet"
    )
    if found["budgets_reached"]:
        ends += f" ({', '.join(found['budgets_reached'])})"
    fast = ", ".join(f"fast_{p} {_share(value)}" for p, value in quality["fast_problems"].items())
    rows = [
        ("collection", f"{output.safe(found['name'])}, {state}, {found['seconds']:.0f} s"),
        ("rollouts", f"{found['rollouts_stopped']} of {found['rollouts']}: {ends}"),
        ("solved", f"{quality['solved']} of {found['problems']} problems; {fast}"),
        ("answers", _answers(quality)),
        ("by turn", " ".join(str(count) for count in quality["solved_by_turn"]) or "–"),
        ("calls", _calls(found)),
        *(
            (f"error of {output.safe(name)}", output.safe(text))
            for name, text in _last_errors(found)
        ),
        ("tokens", _of_cap(found, "tokens", "{:,}")),
        ("money", _money(found)),
        (
            "evaluations",
            (
                f"{_of_cap(found, 'evaluations', '{:,}')}, {_of_cap(found, 'gpu_s', '{:.1f}')} GPU"
                " seconds"
            ),
        ),
    ]
    for name, text in rows:
        table.add_row(name, text)
    output.table_out(table)
    if found["state"] == CollectionState.PAUSED:
        click.echo(f"to go on: assay collect resume {shlex.quote(found['name'])}")


def waits(found: dict[str, Any]) -> str:
    """Time of the next call and its reason, where an endpoint has asked to wait, or is away."""
    if found["waits_until"] is None:
        return ""
    until = datetime.fromisoformat(found["waits_until"]).astimezone()
    told = f", waits until {until:%H:%M:%S}"
    return f"{told} for {output.safe(found['waits_for'][:200])}" if found["waits_for"] else told


def _last_errors(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Endpoint and message of its last failed call."""
    return [(each["endpoint"], each["last_error"]) for each in found["calls"] if each["last_error"]]


def at_fault(found: dict[str, Any]) -> bool:
    """True if faults of the infrastructure are all that came out."""
    if paused_by_endpoint(found):
        return True
    return bool(found["ends"]) and found["ends"].keys() <= FAULTS


def paused_by_endpoint(found: dict[str, Any]) -> bool:
    """True if an endpoint paused the collection, and no user."""
    return bool(
        found["state"] == CollectionState.PAUSED and found["reason"].startswith("endpoint ")
    )


def _answers(quality: dict[str, Any]) -> str:
    told = f"{quality['answers']}: {quality['correct']} correct, {quality['hacks']} hacks"
    return f"{told}, {quality['without_code']} without code"


def _calls(found: dict[str, Any]) -> str:
    total = {
        key: sum(each[key] for each in found["calls"])
        for key in ("calls", "answered", "failed", "lost")
    }
    errors: dict[str, int] = {}
    for each in found["calls"]:
        for kind, count in each["errors"].items():
            errors[kind] = errors.get(kind, 0) + count
    told = ", ".join(f"{kind} {count}" for kind, count in sorted(errors.items()))
    text = (
        f"{total['calls']}: {total['answered']} answered, {total['failed']} failed, {total['lost']}"
        " lost"
    )
    return f"{text} ({told})" if told else text


def _money(found: dict[str, Any]) -> str:
    text = _of_cap(found, "usd", "${:.4f}")
    unknown = sum(each["unknown_cost"] for each in found["calls"])
    if found["usd_per_solved"] is not None:
        text += f", ${found['usd_per_solved']:.4f} a solved problem"
    return text + (f"; {unknown} calls of unknown cost" if unknown else "")


def _of_cap(found: dict[str, Any], name: str, form: str) -> str:
    cap = found["caps"][name]
    return _spent(found, name, form) + ("" if cap is None else f" of {form.format(cap)}")


def _spent(found: dict[str, Any], name: str, form: str) -> str:
    """The amount spent, or the limit that is known of it."""
    return ("at most " if name in report.bounds(found) else "") + form.format(found["spent"][name])


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def overview(found: list[dict[str, Any]]) -> Table:
    """A row for each collection."""
    columns = ("name", "state", "strategy", "rollouts", "calls", "tokens", "usd", "since")
    table = Table(*columns, box=None, pad_edge=False, header_style="dim")
    for each in found:
        table.add_row(
            output.safe(each["name"]),
            each["state"],
            each["strategy"]["name"],
            f"{each['rollouts_stopped']}/{each['rollouts']}",
            f"{each['spent']['calls']:,}",
            f"{each['spent']['tokens']:,}",
            f"{each['spent']['usd']:.2f}",
            each["created_at"][:16],
        )
    return table


def counted(found: dict[str, Any]) -> str:
    """Amounts that count against the budgets: calls of unknown cost or usage count
    at their maximum.
    """
    return (
        f"against budgets: {found['spent']['calls']:,} calls,"
        f" {_spent(found, 'tokens', '{:,}')} tokens, {_spent(found, 'usd', '${:.4f}')}"
    )


def costs(found: dict[str, Any]) -> Table:
    """A row for each endpoint."""
    table = Table(
        *_COST_COLUMNS, "usd", "first token", box=None, pad_edge=False, header_style="dim"
    )
    for each in found["calls"]:
        first, unknown = each["first_token_ms"], each["unknown_cost"]
        counts = (f"{each[name]:,}" for name in list(_COST_COLUMNS.values())[1:])
        usd = f"{each['usd']:.4f}" + (f" (+{unknown} unknown)" if unknown else "")
        table.add_row(
            output.safe(each["endpoint"]), *counts, usd, "–" if first is None else f"{first:.0f} ms"
        )
    return table


_COST_COLUMNS = {
    "endpoint": "endpoint",
    "calls": "calls",
    "failed": "failed",
    "lost": "lost",
    "input": "input_tokens",
    "cached": "cached_input_tokens",
    "output": "output_tokens",
    "reasoning": "reasoning_tokens",
}
"""Heading → key."""
