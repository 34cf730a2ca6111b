"""BROWSE: alerts of the overview: devices out of service, queues that stall, jobs
that fail, hack rates that jump.

These functions are pure: the overview reads the rows, and shows the alerts above everything else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from app.domain.metrics import Share, hack_rate
from app.store.browse.overview import QueueDepth
from app.store.browse.runs import RunRow
from app.store.queue.devices import Device
from app.web import formatting

STALLED_S = 300.0
"""Seconds that the oldest job of a queue may wait while none runs: an evaluation
takes two minutes at most.
"""
FAULT_SHARE = 0.05
"""Share of jobs that fail for infrastructure reasons, which the whole interval must exceed."""
JUMP, FACTOR = 0.05, 2.0
"""Least rise of a hack rate that is an alert: in points, or as a factor of the rate before."""
LISTED = 4
"""Alerts of one kind that are written out; further ones are counted."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Target of an alert's link: an endpoint with its arguments, and an anchor."""

    endpoint: str
    arguments: tuple[tuple[str, str], ...] = ()
    anchor: str = ""


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One sentence with the place that shows the rows behind it."""

    tone: str
    """CSS class of a notice: empty for an outage, `warn` for a warning."""
    subject: str
    text: str
    place: Place


def of_devices(listed: Sequence[Device], silent: Sequence[Device], now: datetime) -> list[Alert]:
    """Devices in quarantine, those without reports of their worker, and those that fail."""
    found = [
        (device, f"is quarantined and takes no jobs: {device.reason or 'no reason given'}")
        for device in listed
        if device.state == "quarantined"
    ]
    failing = [device for device in listed if device.failing and device not in silent]
    found += [
        (
            device,
            (
                f"has sent no heartbeat for {formatting.span(now - device.heartbeat_at)} and has"
                " not signed off"
            ),
        )
        for device in silent
    ]
    place = Place(endpoint="overview.page", anchor="devices")
    alerts = [
        Alert(tone="", subject=f"Device {device.device}", text=text, place=place)
        for device, text in found
    ]
    alerts += [
        Alert(tone="warn", subject=f"Device {each.device}", text=each.failing, place=place)
        for each in failing
    ]
    return _capped(alerts, "devices", place)


def of_queues(queues: Sequence[QueueDepth], now: datetime) -> list[Alert]:
    """Queues in which jobs wait and none runs; priorities of one queue count together."""
    by_queue: defaultdict[str, list[QueueDepth]] = defaultdict(list)
    for depth in queues:
        by_queue[depth.queue].append(depth)
    place = Place(endpoint="jobs.index", arguments=(("state", "queued"),))
    alerts = []
    for name, depths in by_queue.items():
        oldest = min((depth.oldest_at for depth in depths if depth.oldest_at), default=None)
        if (
            oldest is None
            or any(depth.running for depth in depths)
            or (now - oldest).total_seconds() < STALLED_S
        ):
            continue
        waiting = sum(depth.queued for depth in depths)
        jobs, waited = formatting.plural(waiting, "job"), formatting.span(now - oldest)
        text = f"stalls: {jobs} queued for up to {waited}, none running"
        alerts.append(Alert(tone="", subject=f"Queue {name}", text=text, place=place))
    return _capped(alerts, "queues", place)


def of_faults(failed: Share, window: str) -> list[Alert]:
    """Jobs that failed for infrastructure reasons, where they are more than
    FAULT_SHARE beyond chance.
    """
    interval = failed.interval()
    if interval is None or interval.low <= FAULT_SHARE:
        return []
    text = (
        f"for infrastructure reasons: {formatting.count(failed.count)} of"
        f" {formatting.count(failed.of)} ({formatting.percent(failed.value)}) in the last {window}"
    )
    place = Place(endpoint="jobs.index", arguments=(("state", "failed"),))
    return [Alert(tone="warn", subject="Jobs fail", text=text, place=place)]


def of_runs(rows: Iterable[RunRow], since: datetime) -> list[Alert]:
    """The newest step of each training, if it is created since that moment and its
    hack rate has jumped: it is above that of the step before by JUMP or FACTOR, and
    the intervals do not overlap.
    """
    trainings: defaultdict[tuple[str, object], list[RunRow]] = defaultdict(list)
    for row in rows:
        if row.model is not None and row.step is not None and row.counts.attempts:
            trainings[row.model, str(row.settings.get("training"))].append(row)
    alerts = []
    for steps in trainings.values():
        steps.sort(key=lambda row: (row.step, row.run_id))
        for before, after in list(pairwise(steps))[-1:]:
            old, new = (
                hack_rate(each.counts.hacks, each.counts.attempts) for each in (before, after)
            )
            if after.created_at >= since and _has_jumped(new, old):
                text = (
                    f"has a hack rate of {formatting.percent(new.value)}, after"
                    f" {formatting.percent(old.value)} in {before.name}; the 95 % intervals do not"
                    " overlap"
                )
                place = Place(endpoint="runs.page", arguments=(("run_id", str(after.run_id)),))
                alerts.append(
                    Alert(tone="warn", subject=f"Run {after.name}", text=text, place=place)
                )
    return _capped(alerts, "runs", Place(endpoint="runs.index", arguments=(("sort", "-hacks"),)))


def _has_jumped(new: Share, old: Share) -> bool:
    above, below, rate, before = new.interval(), old.interval(), new.value, old.value
    if above is None or below is None or rate is None or before is None:
        return False
    return above.low > below.high and (rate >= before + JUMP or rate >= before * FACTOR)


def _capped(alerts: list[Alert], noun: str, place: Place) -> list[Alert]:
    """The first LISTED, and one that counts the others."""
    if len(alerts) <= LISTED:
        return alerts
    more = f"{formatting.count(len(alerts) - LISTED)} further {noun}"
    rest = Alert(tone=alerts[0].tone, subject=more, text="have the same alert", place=place)
    return [*alerts[:LISTED], rest]
