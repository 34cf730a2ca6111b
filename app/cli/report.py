"""`assay report`: the table that KernelBench prints, and how far each figure may be off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import click
from rich.table import Table

from app.cli import errors, output, services, where_option
from app.cli.number_range import NumberRange
from app.domain import filter_language as filters
from app.domain import metric_samples, metrics, quantities
from app.domain.intervals import Interval
from app.domain.metric_samples import Counted, MetricSample, Operator
from app.domain.metrics import Report, Share
from app.settings import Settings
from app.store.figures import metric_inputs, turn_rewards
from app.store.figures.metric_inputs import Attempted

_GROUPS = ("level", "run", "model", "source_set", "device", "backend", "policy")
_USUAL = ("run", "level", "device", "backend", "policy")


@click.command("report")
@click.argument("runs", metavar="[RUN]…", nargs=-1)
@click.option(
    "--where",
    "where_text",
    callback=where_option.readable,
    default="",
    help="Which evaluations; names as in `assay export --fields`.",
)
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(_GROUPS),
    help="Rows of the table; by default run, level, device class, backend and policy.",
)
@click.option(
    "--p",
    "thresholds",
    multiple=True,
    type=NumberRange(0),
    help="Thresholds of fast_p; by default KernelBench's.",
)
@click.option(
    "--operator",
    type=click.Choice([str(each) for each in Operator]),
    default=">",
    show_default=True,
    help="`>` as KernelBench, `>=` as Dr. Kernel.",
)
@click.option(
    "--k", "ks", multiple=True, type=click.IntRange(1), help="k of unbiased pass@k; by default 1."
)
@click.option(
    "--of",
    "counted",
    type=click.Choice([str(each) for each in Counted]),
    default=str(metric_samples.COUNTED),
    show_default=True,
    help="Denominator: every answer, as KernelBench, or valid evaluations.",
)
@click.option(
    "--turn",
    type=click.Choice(["all", "best", "last"]),
    default="all",
    show_default=True,
    help=(
        "Every turn is a sample, or the best or last one of each trajectory, in a collection of"
        " each of its samples."
    ),
)
@output.json_option("Print every figure with numerator, denominator and interval.")
@click.pass_obj
def command(
    settings: Settings,
    /,
    runs: tuple[str, ...],
    where_text: str,
    by: tuple[str, ...],
    thresholds: tuple[float, ...],
    operator: str,
    ks: tuple[int, ...],
    counted: str,
    turn: str,
    as_json: bool,
) -> None:
    """Print fast_p, pass@k, the geometric mean of speedups and hack rates, for RUN…
    or for everything.

    A hack counts as incorrect.  fast_p is over all answers, as in KernelBench's own analysis: an
    answer without code, or one that could not be evaluated, is a failure; `--of evaluated` leaves
    both out.  Answers that wait for their evaluation count nowhere.  pass@k is the unbiased mean
    over the problems that have k samples.  Intervals are of 95 % and resample problems.

    \b
    assay report
    assay report my-run --by level --turn best --p 1 --p 1.5
    assay report --where "gpu = h200 and source_set = kernelbench" --operator ">=" --json
    """
    expression = filters.parse(where_text)
    if runs:
        named = filters.OneOf(field="run", values=runs)
        expression = (
            named
            if isinstance(expression, filters.Everything)
            else filters.And(operands=(named, expression))
        )
    with services.client(settings) as client, client.database.begin() as connection:
        if unknown := turn_rewards.missing(connection, runs):
            raise errors.BadInputError(f"no run is named {', '.join(unknown)}")
        found = metric_inputs.attempted(connection, expression, Counted(counted))
    if not found:
        raise errors.BadInputError("no judged evaluation matches")
    groups = _grouped(found, by or _USUAL, turn)
    chosen = {
        "thresholds": thresholds or metrics.FAST_THRESHOLDS,
        "ks": ks or (1,),
        "operator": Operator(operator),
    }
    reports = [
        (metrics.report(name, samples, **chosen), samples, hacks)  # type: ignore[arg-type]
        for name, samples, hacks in groups
    ]
    if as_json:
        output.json_out([_json(*each, Counted(counted)) for each in reports])
    else:
        output.table_out(_table(reports, Counted(counted)))


def _grouped(
    found: Sequence[Attempted], by: Sequence[str], turn: str
) -> list[tuple[str, list[MetricSample], metrics.HackRates]]:
    """(Name, samples, hack rates) of each group, by name."""
    groups: dict[str, list[Attempted]] = {}
    for one in found:
        name = " ".join(f"{field} {_shown(getattr(one, field))}" for field in by)
        groups.setdefault(name, []).append(one)
    found_of = {name: _represented(each, turn) for name, each in sorted(groups.items())}
    return [
        (
            name,
            [one.outcome for one in each],
            metrics.hack_rates(Counter((one.passed, one.label) for one in each)),
        )
        for name, each in found_of.items()
    ]


def _represented(found: list[Attempted], turn: str) -> list[Attempted]:
    """Every attempt, or of each line of attempts its best or last one."""
    if turn == "all":
        return found
    lines = [list(turns) for _, turns in groupby(found, key=lambda one: one.line)]
    return [turns[-1] if turn == "last" else _best(turns) for turns in lines]


def _best(turns: list[Attempted]) -> Attempted:
    best = metrics.best([one.outcome for one in turns])
    return next(one for one in turns if one.outcome is best)


def _shown(value: object) -> str:
    return "–" if value is None else str(value)


def _table(
    reports: Sequence[tuple[Report, Sequence[MetricSample], metrics.HackRates]], counted: Counted
) -> Table:
    first = reports[0][0]
    table = Table(
        "", f"samples ({counted})", "problems", box=None, pad_edge=False, header_style="dim"
    )
    for p in first.fast:
        table.add_column(f"fast_{p:g} ({first.operator})", justify="right")
    for k in first.pass_at:
        table.add_column(f"pass@{k}", justify="right")
    table.add_column("geomean", justify="right")
    table.add_column("hacks of passed", justify="right")
    for report, _, hacks in reports:
        geomean = report.geometric_means[metrics.GeometricMean.CORRECT]
        table.add_row(
            output.safe(report.name),
            str(report.samples),
            str(report.problems),
            *(_with_interval(share, report.intervals[p]) for p, share in report.fast.items()),
            *(_percent(estimate.value) for estimate in report.pass_at.values()),
            "–" if geomean.value is None else f"{quantities.ratio(geomean.value)} of {geomean.of}",
            f"{hacks.of_passed.count}/{hacks.of_passed.of}",
        )
    return table


def _with_interval(share: Share, interval: Interval) -> str:
    """`47.0% [37.0, 57.0]`."""
    return f"{_percent(share.value)} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _json(
    report: Report, _: Sequence[MetricSample], hacks: metrics.HackRates, counted: Counted
) -> dict[str, Any]:
    intervals = report.intervals
    return {
        "group": report.name,
        "samples": report.samples,
        "problems": report.problems,
        "operator": str(report.operator),
        "denominator": str(counted),
        "fast_p": {
            f"{p:g}": _share(share) | {"ci": [intervals[p].low, intervals[p].high]}
            for p, share in report.fast.items()
        },
        "pass_at_k": {str(k): vars(estimate) for k, estimate in report.pass_at.items()},
        "geometric_mean": {
            str(kind): vars(centre) for kind, centre in report.geometric_means.items()
        },
        "hack_rate": {"of_passed": _rate(hacks.of_passed), "of_attempts": _rate(hacks.of_attempts)},
    }


def _share(share: Share) -> dict[str, Any]:
    return {"value": share.value, "count": share.count, "of": share.of}


def _rate(share: Share) -> dict[str, Any]:
    interval = share.interval()
    return _share(share) | {"ci": None if interval is None else [interval.low, interval.high]}
