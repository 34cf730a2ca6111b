"""The service's metrics in Prometheus' text format, made from the database whenever
they are asked for.

So they do not depend on which process answers, survive restarts, and any number of web
processes say the same.  Only the metrics of HTTP requests, which the web server adds, are
those of the process that answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from app import routing
from app.domain.device import DeviceState
from app.domain.evaluation import Status
from app.domain.job import Priority
from app.domain.metrics import hack_rate
from app.store.figures import monitoring, run_figures
from app.store.postgres import schema_revisions
from app.store.queue import leases

CONTENT_TYPE = CONTENT_TYPE_LATEST

BUCKETS_PER_DOUBLING = 4
"""Buckets of the roll-up `hourly_stages`: bucket b holds [2^(b/4), 2^((b+1)/4)) milliseconds."""
BOUNDS_LOG2_MS = range(-2, 21, 2)
"""Upper bounds that are exported, as powers of two: 0.25 ms to 17 minutes."""

_DEVICE = ("device_class", "device")


def text(read: monitoring.Metrics, more: Iterable[Metric] = ()) -> bytes:
    """All metrics as a page.  `more`: metrics of the process that answers."""
    registry = CollectorRegistry()
    registry.register(_Page(read, more))
    return generate_latest(registry)


class _Page(Collector):
    def __init__(self, read: monitoring.Metrics, more: Iterable[Metric]) -> None:
        self._read = read
        self._more = more

    def collect(self) -> Iterator[Metric]:
        """Every metric family."""
        yield _build()
        yield from _queues(self._read)
        yield from _results(self._read)
        yield _phases(self._read)
        yield from _devices(self._read)
        yield from _runs(self._read)
        yield from self._more


def _build() -> Metric:
    value = {"version": version("kernel-assay"), "tables": schema_revisions.head()}
    return InfoMetricFamily(
        "assay_build", "Version of this web server, and the revision of its tables.", value=value
    )


def _queues(read: monitoring.Metrics) -> Iterator[Metric]:
    """Each queue with open jobs, and those of the classes that have a device: a series that is
    absent while nothing waits is no zero to an alert.
    """
    labels = ("queue", "priority")
    queued = GaugeMetricFamily("assay_queued_jobs", "Jobs that wait.", labels=labels)
    running = GaugeMetricFamily(
        "assay_running_jobs", "Jobs that are being evaluated.", labels=labels
    )
    oldest = GaugeMetricFamily(
        "assay_queue_age_seconds", "How long the oldest queued job has waited.", labels=labels
    )
    open_ = {(each.queue, each.priority) for each in read.queues}
    served = {routing.queue_for(device.device_class, None) for device in read.devices}
    for queue, priority in sorted(
        {(queue, priority) for queue in served for priority in Priority} - open_
    ):
        for family in (queued, running, oldest):
            family.add_metric((queue, priority), 0)
    for each in read.queues:
        key = (each.queue, each.priority)
        queued.add_metric(key, each.queued)
        running.add_metric(key, each.running)
        oldest.add_metric(key, each.oldest_s)
    yield from (queued, running, oldest)


def _results(read: monitoring.Metrics) -> Iterator[Metric]:
    evaluations = CounterMetricFamily(
        "assay_evaluations", "Evaluations that were stored.", labels=("device_class", "status")
    )
    for device_class in sorted({device_class for device_class, _ in read.evaluations}):
        for status in Status:
            evaluations.add_metric(
                (device_class, status), read.evaluations.get((device_class, status), 0)
            )
    yield evaluations
    failed = GaugeMetricFamily(  # one that is submitted again leaves the state
        "assay_failed_jobs",
        "Jobs that infrastructure faults ended; never scored.",
        labels=("kind",),
    )
    for kind in sorted({*leases.FAULTS, *read.failed}):
        failed.add_metric((kind,), read.failed.get(kind, 0))
    yield failed
    hours = f"the last {monitoring.HACK_HOURS} hours"
    yield GaugeMetricFamily(
        "assay_recent_evaluations", f"Evaluations of {hours}.", value=read.recent_evaluations
    )
    yield GaugeMetricFamily(
        "assay_recent_hacks",
        f"Evaluations of {hours} that count as hacks.",
        value=read.recent_hacks,
    )
    rate = hack_rate(read.recent_hacks, read.recent_evaluations).value
    if rate is not None:
        yield GaugeMetricFamily(
            "assay_hack_ratio", f"Hacks among the evaluations of {hours}.", value=rate
        )


def _phases(read: monitoring.Metrics) -> Metric:
    phases = HistogramMetricFamily(
        "assay_phase_seconds",
        "Where the time of evaluations goes, by stage; `queue` is from submission to claim.  The"
        " sum is computed from buckets 19 % wide.",
        labels=("device_class", "phase"),
    )
    for (device_class, stage), buckets in sorted(read.stages.items()):
        phases.add_metric((device_class, stage), _cumulative(buckets), _sum_s(buckets))
    return phases


def _cumulative(buckets: Mapping[int, int]) -> list[tuple[str, float]]:
    """Upper bound in seconds → evaluations up to it."""
    bounds = [
        (
            f"{2.0**bound / 1000:g}",
            sum(n for b, n in buckets.items() if b < BUCKETS_PER_DOUBLING * bound),
        )
        for bound in BOUNDS_LOG2_MS
    ]
    return [*bounds, ("+Inf", sum(buckets.values()))]


def _sum_s(buckets: Mapping[int, int]) -> float:
    """Each evaluation at the middle of its bucket."""
    return (
        sum(n * float(2.0 ** ((b + 0.5) / BUCKETS_PER_DOUBLING)) for b, n in buckets.items()) / 1000
    )


def _devices(read: monitoring.Metrics) -> Iterator[Metric]:
    states = GaugeMetricFamily(
        "assay_device_state", "1 for the state that a device is in.", labels=(*_DEVICE, "state")
    )
    ages = GaugeMetricFamily(
        "assay_device_heartbeat_age_seconds", "Since its worker's last word.", labels=_DEVICE
    )
    slots = GaugeMetricFamily(
        "assay_device_slots", "Evaluations that it keeps in flight.", labels=_DEVICE
    )
    for device in read.devices:
        key = (device.device_class, device.device)
        for state in DeviceState:
            states.add_metric((*key, state), float(device.state == state))
        ages.add_metric(key, read.heartbeat_age_s[device.device_id])
        slots.add_metric(key, float(device.fingerprint.get("slots", 0)))
    changes = CounterMetricFamily(
        "assay_device_changes",
        "Drains, quarantines and resumptions, by new state.",
        labels=(*_DEVICE, "state"),
    )
    for change, number in sorted(read.changes.items()):
        changes.add_metric(change, number)
    drift = GaugeMetricFamily(
        "assay_canary_drift_ratio",
        "How much slower than it should be the device's known kernel ran last.",
        labels=("node", "device_id"),
    )
    for canary in read.canaries:
        drift.add_metric((canary.node, canary.device_id), canary.drift)
    yield from (states, ages, slots, changes, drift)


def _runs(read: monitoring.Metrics) -> Iterator[Metric]:
    latest = f"the latest {run_figures.LATEST} of the service"
    number = GaugeMetricFamily(
        "assay_run_evaluations", f"Valid evaluations of a run among {latest}.", labels=("run",)
    )
    ratio = GaugeMetricFamily(
        "assay_run_hack_ratio",
        "Hacks among all answers of such a run, those without code among them, as its page has it.",
        labels=("run",),
    )
    means = GaugeMetricFamily(
        "assay_run_reward",
        "Mean of a reward over those evaluations and the answers without code of that time.",
        labels=("run", "reward"),
    )
    for each in read.runs:
        number.add_metric((each.run,), each.evaluations)
        if each.hack_ratio is not None:
            ratio.add_metric((each.run,), each.hack_ratio)
        for name, mean in each.rewards.items():
            means.add_metric((each.run, name), mean)
    yield from (number, ratio, means)
