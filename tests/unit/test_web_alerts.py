"""Alerts of the overview appear for faults, and not for an ordinary day."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from app.domain import ids
from app.domain.metrics import Share
from app.store.browse.overview import QueueDepth
from app.store.browse.runs import Counts, RunRow
from app.store.queue.devices import Device
from app.web import alerts

NOW = datetime(2026, 11, 24, 10, tzinfo=UTC)


def device(
    state: str = "online", *, index: int = 0, silent_s: float = 1.0, reason: str | None = None
) -> Device:
    return Device(
        device_id=ids.new_id(),
        node="vm",
        device_class="h200",
        device_index=index,
        state=state,
        worker="vm.1",
        fingerprint={},
        heartbeat_at=NOW - timedelta(seconds=silent_s),
        reason=reason,
    )


def depth(
    queued: int = 3, running: int = 0, *, waits_s: float = 600.0, priority: str = "normal"
) -> QueueDepth:
    oldest = NOW - timedelta(seconds=waits_s) if queued else None
    return QueueDepth(
        queue="gpu.h200", priority=priority, queued=queued, running=running, oldest_at=oldest
    )


def run(step: int | None, hacks: int, attempts: int, *, training: str = "a") -> RunRow:
    counts = Counts(attempts=attempts, hacks=hacks)
    return RunRow(
        run_id=ids.new_id(),
        name=f"{training}/step-{step}",
        model="coder",
        step=step,
        settings={"training": training},
        created_at=NOW,
        counts=counts,
    )


def test_a_quarantined_device_is_named_with_its_reason() -> None:
    found = alerts.of_devices([device(), device("quarantined", index=1, reason="Xid 79")], [], NOW)
    assert [(each.subject, each.text) for each in found] == [
        ("Device vm.1", "is quarantined and takes no jobs: Xid 79")
    ]


def test_a_device_that_signed_off_or_drains_is_no_alert() -> None:
    assert alerts.of_devices([device("offline"), device("draining")], [], NOW) == []


def test_an_online_device_that_serves_nothing_is_an_alert() -> None:
    failing = replace(device(), faults=2)
    (found,) = alerts.of_devices([failing, replace(device("offline"), faults=2)], [], NOW)
    assert (found.tone, found.subject) == ("warn", "Device vm.0")
    assert found.text.startswith("2 starts or evaluations in a row failed")
    (silent,) = alerts.of_devices([failing], [failing], NOW)
    assert "heartbeat" in silent.text


def test_a_silent_device_is_named_with_the_time_since_it_reported() -> None:
    gone = device(silent_s=600.0)
    (found,) = alerts.of_devices([gone], [gone], NOW)
    assert "no heartbeat for 10 min" in found.text


def test_many_alerts_of_one_kind_are_counted() -> None:
    listed = [device("quarantined", index=place) for place in range(30)]
    found = alerts.of_devices(listed, [], NOW)
    assert len(found) == alerts.LISTED + 1
    assert found[-1].subject == "26 further devices"


def test_a_queue_in_which_jobs_wait_and_none_runs_stalls() -> None:
    (found,) = alerts.of_queues([depth(), depth(2, priority="high", waits_s=10)], NOW)
    assert found.subject == "Queue gpu.h200"
    assert "5 jobs queued for up to 10 min, none running" in found.text


def test_a_queue_that_moves_or_has_just_begun_is_no_alert() -> None:
    assert alerts.of_queues([depth(), depth(0, running=1, priority="high")], NOW) == []
    assert alerts.of_queues([depth(waits_s=alerts.STALLED_S - 1)], NOW) == []


def test_failed_jobs_are_an_alert_beyond_chance_only() -> None:
    assert alerts.of_faults(Share(count=0, of=0), "24 hours") == []
    assert alerts.of_faults(Share(count=1, of=10), "24 hours") == []
    (found,) = alerts.of_faults(Share(count=20, of=100), "24 hours")
    assert "20 of 100 (20.0 %) in the last 24 hours" in found.text


def test_a_hack_rate_that_jumps_from_one_step_to_the_next_is_an_alert() -> None:
    after = run(2, 40, 100)
    (found,) = alerts.of_runs([after, run(1, 5, 100), run(0, 60, 100)], NOW)
    assert found.subject == "Run a/step-2"
    assert "40.0 %, after 5.0 % in a/step-1" in found.text
    assert dict(found.place.arguments) == {"run_id": str(after.run_id)}


def test_hack_rates_within_chance_or_of_other_trainings_are_no_alert() -> None:
    assert alerts.of_runs([run(1, 6, 20), run(0, 4, 20)], NOW) == []
    assert alerts.of_runs([run(1, 40, 100), run(0, 5, 100, training="b")], NOW) == []
    assert alerts.of_runs([run(None, 40, 100), run(None, 5, 100)], NOW) == []
    assert alerts.of_runs([run(2, 5, 100), run(1, 40, 100), run(0, 5, 100)], NOW) == [], (
        "the jump is past"
    )


def test_a_small_rise_or_an_old_run_is_no_alert() -> None:
    assert alerts.of_runs([run(1, 1390, 10_000), run(0, 1120, 10_000)], NOW) == [], (
        "beyond chance, but no jump"
    )
    assert len(alerts.of_runs([run(1, 60, 1000), run(0, 10, 1000)], NOW)) == 1, "six times as many"
    assert alerts.of_runs([run(1, 40, 100), run(0, 5, 100)], NOW + timedelta(hours=1)) == []
