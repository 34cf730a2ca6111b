"""Which job a device gets: by rank, which grows with waiting, then by fair share, then by age."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from celery import Celery

from app import broker as brokers
from app import enqueue, routing
from app.domain.device import DeviceId
from app.domain.job import JobState, Limits
from app.domain.request import RequestError
from app.store import tables
from app.store.evaluation import evaluations
from app.store.postgres.database import Database
from app.store.queue import devices, jobs, kernelgym, leases, scheduling
from tests.integration import fakes
from workers.worker import lease_extension

HERE = DeviceId(device_class="h200", node="here", index=0)
THERE = DeviceId(device_class="h200", node="there", index=1)
QUEUE = "gpu.h200"
ATTEMPTS = 3


def submit(database: Database, broker: Celery, *candidates: str, **fields: Any) -> list[UUID]:
    asked = [fakes.request(each, device_class="h200", **fields) for each in candidates]
    return enqueue.enqueue(database, broker, asked)


def many(number: int) -> list[str]:
    return [secrets.token_hex(8) for _ in range(number)]


def claim(database: Database, place: DeviceId = HERE, queue: str = QUEUE) -> scheduling.Claim:
    terms = scheduling.ClaimSettings(owner=secrets.token_hex(4), lease_s=60, limits=Limits())
    with database.begin() as connection:
        return scheduling.claim(connection, place, queue, terms)


def claimed(database: Database, place: DeviceId = HERE, queue: str = QUEUE) -> UUID | None:
    lease = claim(database, place, queue).lease
    return lease.job.job_id if lease else None


def waited(database: Database, job_ids: Sequence[UUID], seconds: float) -> None:
    """Date the jobs back, as if they had been submitted so long ago."""
    j = tables.jobs.c
    with database.begin() as connection:
        earlier = j.created_at - sa.func.make_interval(0, 0, 0, 0, 0, 0, seconds)
        connection.execute(
            sa.update(tables.jobs).where(j.job_id.in_(job_ids)).values(created_at=earlier)
        )


def run_of(database: Database, job_ids: Sequence[UUID]) -> list[str | None]:
    j, r = tables.jobs.c, tables.runs.c
    with database.begin() as connection:
        rows = connection.execute(
            sa.select(j.job_id, r.name).select_from(tables.jobs.outerjoin(tables.runs))
        )
        named = {row.job_id: row.name for row in rows}
    return [named[job_id] for job_id in job_ids]


def register(database: Database, *places: DeviceId) -> None:
    with database.begin() as connection:
        for place in places:
            devices.register(
                connection,
                place,
                worker="w",
            )


def test_the_urgent_first_then_the_oldest_whatever_the_message_says(
    database: Database, broker: Celery
) -> None:
    wanted = {
        word: submit(database, broker, f"{word} 1", f"{word} 2", priority=word)
        for word in ("low", "normal")
    }
    wanted["high"] = submit(database, broker, "high 1", "high 2", priority="high")
    order = [claimed(database) for _ in range(7)]
    assert order == [*wanted["high"], *wanted["normal"], *wanted["low"], None]


def test_a_batch_is_served_in_the_order_of_its_requests(database: Database, broker: Celery) -> None:
    submitted = submit(database, broker, *many(50))
    assert [claimed(database) for _ in submitted] == submitted


def test_what_waits_becomes_urgent(database: Database, broker: Celery) -> None:
    """A low job overtakes jobs submitted after it has risen, and no earlier ones."""
    low, older = submit(database, broker, "low", "older", priority="low")
    (high,) = submit(database, broker, "high", priority="high")
    (normal,) = submit(database, broker, "normal", priority="normal")
    waited(database, [low], 2 * scheduling.AGEING_S + 1)
    waited(database, [older], scheduling.AGEING_S + 1)
    assert [claimed(database) for _ in range(4)] == [low, high, older, normal]


def test_a_long_queue_of_one_run_does_not_starve_another(
    database: Database, broker: Celery
) -> None:
    submit(database, broker, *many(300), run="big")
    submit(database, broker, *many(10), run="small")
    submit(database, broker, *many(5))  # in no run
    first = [claimed(database) for _ in range(15)]
    assert None not in first
    assert Counter(run_of(database, [job for job in first if job])) == {
        "big": 5,
        "small": 5,
        None: 5,
    }


def test_shares_are_of_what_runs_now_and_then_of_turns(database: Database, broker: Celery) -> None:
    """`long` holds two devices already: `short` gets the next two, whichever was served last."""
    submit(database, broker, *many(5), run="long")
    held = [claimed(database), claimed(database)]
    submit(database, broker, *many(5), run="short")
    following = [claimed(database) for _ in range(4)]
    assert run_of(database, [job for job in held if job]) == ["long"] * 2
    assert run_of(database, [job for job in following if job])[:2] == ["short"] * 2
    assert sorted(str(run) for run in run_of(database, [job for job in following if job])[2:]) == [
        "long",
        "short",
    ]


def test_one_device_serves_runs_in_turn(database: Database, broker: Celery) -> None:
    for run in ("a", "b", "c"):
        submit(database, broker, *many(4), run=run)
    served = []
    for _ in range(9):
        lease = claim(database).lease
        assert lease is not None
        served.append(lease.job.job_id)
        with database.begin() as connection:
            assert evaluations.add(
                connection, lease, worker="w", evaluation=fakes.incorrect(), verdict=fakes.clean()
            )
    turns = run_of(database, served)
    assert [sorted(map(str, turns[start : start + 3])) for start in (0, 3, 6)] == [
        ["a", "b", "c"]
    ] * 3


def test_priority_goes_before_shares(database: Database, broker: Celery) -> None:
    submit(database, broker, *many(3), run="a", priority="high")
    submit(database, broker, *many(3), run="b")
    served = [claimed(database) for _ in range(4)]
    assert run_of(database, [job for job in served if job]) == ["a", "a", "a", "b"]


def test_pins_are_honoured_and_permissions_are_given_again(
    database: Database, broker: Celery
) -> None:
    register(database, HERE, THERE)
    (anywhere,) = submit(database, broker, "anywhere")
    (device,) = submit(database, broker, "device", device="here.0", priority="high")
    (node,) = submit(database, broker, "node", device="there", priority="high")

    first = claim(database)  # a permission of the class takes the pinned job, and is owed again
    assert first.lease is not None
    assert (first.lease.job.job_id, first.owed) == (device, True)
    second = claim(database, THERE)
    assert second.lease is not None
    assert (second.lease.job.job_id, second.owed) == (node, True)
    third = claim(database)
    assert third.lease is not None
    assert (third.lease.job.job_id, third.owed) == (anywhere, False)
    assert (
        claim(database, queue="gpu.here.0") == scheduling.Claim()
    )  # the permission that the pinned job left behind
    assert [brokers.depth(broker, queue) for queue in routing.served(HERE)] == [1, 0, 1]


def test_a_pin_must_be_of_the_class(database: Database, broker: Celery) -> None:
    register(database, HERE)
    with pytest.raises(
        RequestError, match=r"unknown device 'here\.0' of class 'cpu'; there is none yet"
    ):
        enqueue.enqueue(database, broker, [fakes.request(device="here.0")])
    with pytest.raises(RequestError, match="request 1: unknown device 'there' of class 'h200'"):
        enqueue.enqueue(
            database, broker, [fakes.request(), fakes.request(device="there", device_class="h200")]
        )
    assert submit(database, broker, "fine", device="here")


def test_a_job_that_another_transaction_refers_to_is_claimed(
    database: Database, broker: Celery
) -> None:
    """A row with a foreign key on the job is inserted, and not yet committed, at the
    moment of the claim.
    """
    (job_id,) = submit(database, broker, "named")
    with database.begin() as connection:
        kernelgym.put(connection, [kernelgym.Task(task_id="mine", job_id=job_id)])
        assert claimed(database) == job_id


def test_a_permission_is_owed_where_the_jobs_that_wait_are_held(
    database: Database, broker: Celery
) -> None:
    (job_id,) = submit(database, broker, "held")
    with database.begin() as connection:
        connection.execute(
            sa.select(tables.jobs.c.job_id).where(tables.jobs.c.job_id == job_id).with_for_update()
        )
        assert claim(database) == scheduling.Claim(owed=True)
    assert claimed(database) == job_id
    assert claim(database) == scheduling.Claim()


def test_many_at_once_get_each_job_once(database: Database, broker: Celery) -> None:
    submitted = set(submit(database, broker, *many(40), run="a")) | set(
        submit(database, broker, *many(40))
    )
    taken: list[UUID] = []

    def take() -> None:
        while (job_id := claimed(database)) is not None:
            taken.append(job_id)

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 80
    assert set(taken) == submitted


def test_cancelled_and_exhausted_jobs_are_settled_on_the_way(
    database: Database, broker: Celery
) -> None:
    asked, exhausted, fine = submit(database, broker, "cancelled", "exhausted", "fine")
    lease = claim(database).lease
    assert lease is not None
    with database.begin() as connection:
        jobs.cancel(connection, asked)
        leases.release(connection, lease, Limits(), "infrastructure", "fire")
        used_up = sa.update(tables.jobs).where(tables.jobs.c.job_id == exhausted)
        connection.execute(used_up.values(attempt=ATTEMPTS, not_before=None))
    assert claimed(database) == fine
    with database.begin() as connection:
        states = jobs.states(connection, [asked, exhausted])
    assert states == {asked: JobState.CANCELLED, exhausted: JobState.FAILED}


@pytest.mark.parametrize("close", [devices.drain, devices.quarantine])
def test_a_closed_device_is_refused_and_its_jobs_go_elsewhere(
    database: Database, broker: Celery, close: Any
) -> None:
    register(database, HERE, THERE)
    (job_id,) = submit(database, broker, "job")
    (pinned,) = submit(database, broker, "pinned", device="here.0")
    with database.begin() as connection:
        (device,) = close(connection, "here.0", reason="too hot", changed_by="ann")
    refused = claim(database)
    assert (refused.lease, refused.refused, refused.owed) == (None, device.state, True)
    assert not claim(database, queue="gpu.here.0").owed  # no other job could use it
    assert claimed(database, THERE) == job_id
    assert claimed(database, THERE) is None
    with database.begin() as connection:
        devices.resume(connection, "here", changed_by="ben")
    assert claimed(database) == pinned


def test_states_of_devices_have_reasons_and_a_history(database: Database) -> None:
    register(database, HERE, THERE)
    with database.begin() as connection:
        devices.drain(connection, "here", reason="new driver", changed_by="ann")
        devices.quarantine_at(connection, HERE, reason="Xid 79", changed_by="worker")
        devices.drain(
            connection, "here", reason="again", changed_by="ann"
        )  # quarantined stays quarantined
        (device,) = devices.named(connection, "here.0")
        assert (device.state, device.reason, device.changed_by) == (
            "quarantined",
            "Xid 79",
            "worker",
        )
    register(database, HERE)  # a heartbeat changes nothing of that
    with database.begin() as connection:
        (device,) = devices.resume(connection, "here.0", changed_by="ben")
        assert (device.state, device.reason) == ("online", None)
        assert [
            (event.device, event.state, event.changed_by) for event in devices.events(connection)
        ] == [
            ("here.0", "online", "ben"),
            ("here.0", "quarantined", "worker"),
            ("here.0", "draining", "ann"),
        ]
        with pytest.raises(
            devices.UnknownDeviceError,
            match=r"no device 'her'; expected one of here, here\.0, there",
        ):
            devices.resume(connection, "her", changed_by="ben")


def test_a_job_that_was_cut_short_is_not_claimed_before_its_moment(
    database: Database, broker: Celery
) -> None:
    first, second = submit(database, broker, "first", "second")
    lease = claim(database).lease
    assert lease is not None
    with database.begin() as connection:
        leases.release(connection, lease, Limits(), "infrastructure", "gone", cut_short=True)
        j = tables.jobs.c
        later = sa.update(tables.jobs).where(j.job_id == first)
        connection.execute(later.values(not_before=sa.func.now() + sa.text("interval '1 hour'")))
    assert [claimed(database), claimed(database)] == [second, None]
    assert claim(database) == scheduling.Claim()  # nothing is owed before that
    with database.begin() as connection:
        connection.execute(later.values(not_before=sa.func.now()))
    assert claimed(database) == first


def test_a_job_that_runs_again_does_not_use_up_the_permission_of_another(
    database: Database, broker: Celery
) -> None:
    """It was released, is due, and no message has left for it yet, when that of
    another job arrives.
    """
    first, second = submit(database, broker, "first", "second")
    lease = claim(database).lease
    assert lease is not None
    with database.begin() as connection:
        leases.release(connection, lease, Limits(), "infrastructure", "gone", cut_short=True)
        connection.execute(sa.update(tables.jobs).values(not_before=None))
    again = claim(database)
    assert again.lease is not None
    assert (again.lease.job.job_id, again.owed) == (first, True)
    assert (claimed(database), claim(database)) == (second, scheduling.Claim())


def test_faults_in_a_row_are_those_of_several_jobs(database: Database) -> None:
    register(database, HERE, THERE)
    with database.begin() as connection:
        assert [devices.note_fault(connection, HERE, key) for key in ("a", "a", "b", "c", "b")] == [
            1,
            1,
            2,
            3,
            3,
        ]
        assert [device.faults for device in devices.named(connection, "here")] == [3]
        devices.note_success(connection, HERE)
        assert [device.faults for device in devices.listed(connection)] == [0, 0]
        devices.note_fault(connection, HERE, "d")
        devices.quarantine(connection, "here", reason="r", changed_by="ann")
        devices.resume(connection, "here", changed_by="ann")
        assert devices.note_fault(connection, HERE, "e") == 1  # a fresh start


def test_a_job_that_makes_devices_sick_is_set_aside(database: Database, broker: Celery) -> None:
    (job_id,) = submit(database, broker, "sick")
    lease = claim(database).lease
    assert lease is not None
    with database.begin() as connection:
        assert leases.give_back_sick(connection, lease, "Xid 31") is JobState.QUEUED
    again = claim(database, THERE).lease
    assert again is not None
    assert again.job.attempt == 1  # none was counted
    with database.begin() as connection:
        assert leases.give_back_sick(connection, lease, "too late") is None
        assert leases.give_back_sick(connection, again, "Xid 31") is JobState.FAILED
        row = connection.execute(sa.select(tables.jobs).where(tables.jobs.c.job_id == job_id)).one()
    assert (row.error_kind, row.error_message) == (leases.SICK_DEVICES, "Xid 31")


def test_a_process_that_neither_finishes_nor_gives_up_is_ended(
    database: Database, broker: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(database, broker, "stuck")
    lease = claim(database).lease
    assert lease is not None
    ended = threading.Event()
    monkeypatch.setattr(lease_extension, "MARGIN_S", -lease.job.options.patience_s)
    monkeypatch.setattr("workers.worker.lease_extension.os._exit", lambda code: ended.set())
    with lease_extension.LeaseExtension(database, lease, HERE, 0.2, lambda: None):
        assert ended.wait(30)
