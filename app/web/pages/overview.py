"""BROWSE: the first page: waiting and running jobs, recent results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import flask

from app.domain import metrics
from app.domain.evaluation import Status
from app.domain.filter_language import Everything
from app.domain.metrics import Share
from app.domain.verdict import Label
from app.store.browse import candidates, overview, paging, runs
from app.store.filter import rare_filters
from app.store.queue import devices
from app.web import (
    alerts,
    evaluation_view,
    explained_findings,
    formatting,
    jinja_filters,
    live_updates,
    request_context,
    run_lines,
    table_export,
)
from app.web.charts import line_plot, sparkline, stacked_bars
from app.web.charts.line_plot import Series
from app.web.identity import requires
from app.web.query_parameters import reads

LATEST = 10
"""Evaluations shown on the first page."""
RUNS = 5
"""Runs shown on the first page."""
WATCHED_RUNS = 20
"""Latest runs with hack rates compared from step to step."""
SILENT_LEASES = 3
"""A device not heard of for this many leases is shown as silent, for any last state."""
WINDOWS = {"24": "24 hours", "72": "3 days", "336": "14 days"}
"""Hours that the charts may go back."""
BARS = 48
"""Bars of the chart over time: longer windows put several hours into one."""
STAGES = ("queue", *evaluation_view.STAGES)
"""Stages in the order in which they happen; others, and the total, come last."""
DETECTORS = 5
"""Detectors with a line of their own."""

blueprint = flask.Blueprint("overview", __name__)


@blueprint.get("/")
@requires("read")
@reads("hours")
def page() -> str:
    """The whole page."""
    hours = _hours()
    return flask.render_template("overview.html", hours=hours, windows=WINDOWS, **_body.shown())


@blueprint.get("/overview/<any(queues,devices,hours,stages):what>.<any(json,csv):kind>")
@requires("read")
@reads("hours")
def table(what: str, kind: str) -> flask.Response:
    """A table of the page as data."""
    with request_context.database().snapshot() as connection:
        data = overview.read(connection, hours=int(_hours()))
    return table_export.answer(kind, what, getattr(data, what))


def _hours() -> str:
    return request_context.choice_argument("hours", WINDOWS, next(iter(WINDOWS)))


@live_updates.live_part(blueprint, "/overview/live", "evaluations", "jobs", "devices", "runs")
@reads("hours")
def _body() -> str:
    hours = _hours()
    with request_context.database().snapshot() as connection:
        data = overview.read(connection, hours=int(hours))
        every = rare_filters.narrowed(connection, Everything())
        latest = candidates.page(connection, every, paging.Window(limit=LATEST)).rows
        latest_runs = runs.page(connection, paging.Window(limit=WATCHED_RUNS)).rows
    per_minute = [number for _, number in data.minutes]
    silent = _silent(data.devices)
    online = [
        device for device in data.devices if device.state == "online" and device not in silent
    ]
    recent = sum(sum(hour.statuses.values()) for hour in data.hours)
    fault_rate = Share(count=data.failed_lately, of=data.failed_lately + recent)
    now = datetime.now(UTC)
    return flask.render_template(
        "_overview.html",
        data=data,
        latest=latest,
        runs=run_lines.lines(latest_runs[:RUNS]),
        alerts=[
            *alerts.of_devices(data.devices, silent, now),
            *alerts.of_queues(data.queues, now),
            *alerts.of_faults(fault_rate, WINDOWS[hours]),
            *alerts.of_runs(latest_runs, now - timedelta(hours=int(hours))),
        ],
        reward=request_context.settings().reward,
        window=WINDOWS[hours],
        hours=hours,
        waiting=sum(depth.queued for depth in data.queues),
        running=sum(depth.running for depth in data.queues),
        evaluated=sum(data.statuses.values()),
        last_hour=sum(per_minute),
        busiest=max(per_minute),
        bars=sparkline.bars(
            [(jinja_filters.clock(minute), number) for minute, number in data.minutes]
        ),
        hack_rate=data.hacks,
        fault_rate=fault_rate,
        silent=silent,
        online=len(online),
        slots=sum(int(device.fingerprint.get("slots") or 1) for device in online),
        oldest=min((depth.oldest_at for depth in data.queues if depth.oldest_at), default=None),
        stages=sorted(data.stages, key=_place),
        statuses={status: data.statuses[status] for status in Status if status in data.statuses},
        verdicts={label: data.verdicts[label] for label in Label if label in data.verdicts},
        over_time=_statuses_plot(data.hours),
        hack_plot=_hack_plot(data.hours),
        links={
            what: table_export.links("overview.table", what=what, hours=hours)
            for what in ("queues", "devices", "stages")
        },
    )


def _place(stage: overview.Stage) -> int:
    return STAGES.index(stage.stage) if stage.stage in STAGES else len(STAGES)


def _silent(listed: tuple[devices.Device, ...]) -> list[devices.Device]:
    limit = datetime.now(UTC) - timedelta(
        seconds=SILENT_LEASES * request_context.settings().lease_s
    )
    return [device for device in listed if device.state == "online" and device.heartbeat_at < limit]


def _grouped(hours: tuple[overview.Hour, ...]) -> list[tuple[str, tuple[overview.Hour, ...]]]:
    """Label and hours of each bar; groups end at the last hour."""
    size = -(-len(hours) // BARS)
    text = "%H:%M" if len(hours) <= 24 else "%d %b %H:%M"
    starts = range(len(hours) % size, len(hours), size)
    return [(hours[start].hour.strftime(text), hours[start : start + size]) for start in starts]


def _statuses_plot(hours: tuple[overview.Hour, ...]) -> stacked_bars.StackedBars | None:
    bars: list[tuple[str, dict[str, int]]] = [
        (label, {status: sum(hour.statuses.get(status, 0) for hour in each) for status in Status})
        for label, each in _grouped(hours)
    ]
    return stacked_bars.plot(bars, list(Status), x_label="from (UTC)", words=jinja_filters.words)


def _hack_plot(hours: tuple[overview.Hour, ...]) -> line_plot.LinePlot | None:
    groups = _grouped(hours)
    if not any(hour.evaluations for hour in hours):
        return None
    totals: dict[str, int] = {}
    for hour in hours:
        for name, number in hour.detectors.items():
            totals[name] = totals.get(name, 0) + number

    def labels(place: float) -> str:
        return groups[round(place)][0]

    named = sorted(totals, key=lambda name: -totals[name])[: DETECTORS - 1]
    lines: list[Series] = [
        Series(name="hacks, by the detectors", points=_shares(groups, lambda hour: hour.hacks)),
        Series(
            name="hacks, confirmed by people", points=_shares(groups, lambda hour: hour.confirmed)
        ),
        *(
            Series(
                name=explained_findings.title(name), points=_shares(groups, partial(_found, name))
            )
            for name in named
        ),
    ]
    return line_plot.lines(
        lines,
        x_label="from (UTC)",
        y_label="share of evaluations",
        x_text=labels,
        y_text=formatting.percent,
        marks=False,
    )


def _found(detector: str, hour: overview.Hour) -> int:
    return hour.detectors.get(detector, 0)


def _shares(
    groups: Sequence[tuple[str, Sequence[overview.Hour]]], count: Callable[[overview.Hour], int]
) -> list[tuple[float, float | None]]:
    points: list[tuple[float, float | None]] = []
    for place, (_, each) in enumerate(groups):
        total = sum(hour.evaluations for hour in each)
        points.append(
            (float(place), metrics.hack_rate(sum(count(hour) for hour in each), total).value)
        )
    return points
