"""Records come out of the tables unchanged, and a second verdict is added to the first."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa
import zstandard
from celery import Celery

from app import enqueue
from app.domain.device import DeviceId
from app.domain.problem import Problem
from app.domain.request import RequestError
from app.domain.trajectory import Message, Run, Turn
from app.domain.verdict import Verdict
from app.domain.worker_instance import WorkerInstance
from app.settings import Settings
from app.store import tables
from app.store.evaluation import evaluations
from app.store.postgres.database import Database, DatabaseUnavailableError, TooLongError
from app.store.queue import devices, jobs, leases, other_workers
from app.store.trajectory import candidates, problems, trajectories
from tests.integration import fakes

ODD = "NUL \x00, lone surrogates \ud800 \udfff, 🦆, é\r\n"


def store(database: Database, broker: Celery, candidate: str, verdict: Verdict) -> UUID:
    (job_id,) = enqueue.enqueue(database, broker, [fakes.request(candidate)])
    with database.begin() as connection:
        lease = leases.claim(connection, job_id, "me", 30)
        assert lease is not None
        stored = evaluations.add(
            connection,
            lease,
            worker="w",
            evaluation=fakes.incorrect(),
            verdict=verdict,
            timeline=b"[1]",
        )
    assert stored is not None
    return stored


def test_an_evaluation_comes_back_as_it_was(database: Database, broker: Celery) -> None:
    evaluation_id = store(database, broker, "a", fakes.clean())
    with database.begin() as connection:
        stored = evaluations.get(connection, evaluation_id)
        body = evaluations.timeline(connection, evaluation_id)
        assert evaluations.get(connection, uuid4()) is None
    assert stored is not None
    assert (stored.evaluation, stored.backend) == (fakes.incorrect(), "torch")
    assert zstandard.decompress(body or b"") == b"[1]"


def test_a_new_verdict_becomes_the_current_one_and_the_old_one_stays(
    database: Database, broker: Celery
) -> None:
    evaluation_id = store(database, broker, "a", fakes.clean())
    with database.begin() as connection:
        assert evaluations.verdict(connection, evaluation_id) == fakes.clean()
        evaluations.add_verdict(connection, evaluation_id, fakes.hack())
    with database.begin() as connection:
        shown = replace(fakes.hack().findings[0], summary="cheats\ufffd")
        assert evaluations.verdict(connection, evaluation_id) == replace(
            fakes.hack(), findings=(shown,)
        )
        (count,) = connection.exec_driver_sql("SELECT count(*) FROM verdicts").one()
    assert count == 2


def test_every_evaluation_is_visited_once(database: Database, broker: Celery) -> None:
    expected = [store(database, broker, str(number), fakes.clean()) for number in range(7)]
    visited = []
    for stored in evaluations.iterate(database, batch=3):
        visited.append(stored.evaluation_id)
        with database.begin() as connection:
            evaluations.add_verdict(connection, stored.evaluation_id, fakes.hack())
    assert visited == sorted(expected)


def test_records_of_jobs_in_every_state(database: Database, broker: Celery) -> None:
    store(database, broker, "done", fakes.hack())
    done, queued = enqueue.enqueue(
        database, broker, [fakes.request("done"), fakes.request("queued")]
    )
    with database.begin() as connection:
        found = evaluations.job_records(connection, [done, queued, uuid4()])
    assert set(found) == {done, queued}
    finished, waiting = found[done].result("http://here"), found[queued].result()
    assert set(finished) == set(waiting)
    assert (finished["state"], finished["status"], finished["verdict"]) == (
        "finished",
        "incorrect",
        "hack",
    )
    assert (waiting["state"], waiting["valid"], waiting["url"]) == ("queued", False, None)


def test_problems_and_candidates_are_stored_once(database: Database) -> None:
    other = replace(fakes.PROBLEM, name="other")
    same = candidates.Candidate(backend="torch", source=ODD.encode("utf-8", "surrogatepass"))
    cuda = replace(same, backend="cuda")
    with database.begin() as connection:
        first, second, third = problems.add(connection, [fakes.PROBLEM, other, fakes.PROBLEM])
        assert first == third != second
        assert problems.add(connection, [other]) == [second]
        assert problems.get(connection, second) == other
        assert problems.get(connection, uuid4()) is None
        a, b, c = candidates.add(connection, [same, cuda, same])
        assert a == c != b
        row = connection.execute(
            sa.select(tables.candidates).where(tables.candidates.c.candidate_id == b)
        ).one()
    assert candidates.Candidate(backend=row.backend, source=row.source) == cuda


def test_a_name_that_no_index_holds_is_the_senders_mistake(database: Database) -> None:
    name = "".join(chr(0x10000 + 7919 * number % 50_000) for number in range(1_000))
    with pytest.raises(TooLongError), database.begin() as connection:
        problems.add(connection, [Problem(name=name, reference=b"reference")])


def test_another_entry_point_of_the_same_reference_is_another_problem(database: Database) -> None:
    other = replace(fakes.PROBLEM, entry_point="Relu")
    with database.begin() as connection:
        first, second = problems.add(connection, [fakes.PROBLEM, other])
        assert first != second
        assert problems.add(connection, [other, fakes.PROBLEM]) == [second, first]
        assert problems.get(connection, second) == other


def test_a_trajectory_comes_back_character_for_character(
    database: Database, broker: Celery
) -> None:
    run = Run(name="run", model="m", settings={"temperature": 1.0, "stop": ["a"]}, step=3)
    turns = [
        Turn(
            messages=(Message(role="system", content=ODD), Message(role="user", content="")),
            response=ODD,
            candidate="c",
        ),
        Turn(messages=(), response="no code", candidate=None),
        Turn(messages=(Message(role="user", content="again"),), response="", candidate="c"),
        Turn(messages=(), response="empty", candidate=""),
        Turn(messages=(), response="odd", candidate=ODD),
    ]
    trajectory_id = enqueue.enqueue_trajectory(
        database, broker, request=fakes.request(), turns=turns, run=run, label="mine"
    )
    with database.begin() as connection:
        found = trajectories.get(connection, trajectory_id)
        assert trajectories.get(connection, uuid4()) is None
    assert found is not None
    assert (found.run, found.label, found.backend) == ("run", "mine", "torch")
    bare = [replace(turn, turn_index=0, job_id=None) for turn in found.turns]
    assert bare == turns
    assert [turn.turn_index for turn in found.turns] == [0, 1, 2, 3, 4]
    first, none, same, empty, _ = (turn.job_id for turn in found.turns)
    assert none is None
    assert first == same != empty


def test_a_run_says_the_same_about_itself_always(database: Database) -> None:
    run = Run(name="run", model="m", settings={"t": 0.7})
    with database.begin() as connection:
        run_id = trajectories.add_run(connection, run)
        assert trajectories.add_run(connection, run) == run_id
        with pytest.raises(
            trajectories.RunConflictError, match=r"run 'run': expected .*'m'.* got .*'n'"
        ):
            trajectories.add_run(connection, replace(run, model="n"))


def test_a_trajectory_with_one_bad_turn_stores_nothing(database: Database, broker: Celery) -> None:
    turn = Turn(messages=(), response="", candidate="x")
    with pytest.raises(RequestError, match="NUL"):
        enqueue.enqueue_trajectory(
            database, broker, request=fakes.request(), turns=[turn], label="\x00"
        )
    with database.begin() as connection:
        assert sum(jobs.counts(connection).values()) == 0


def test_devices_are_known_by_their_heartbeats(database: Database) -> None:
    seen = DeviceId(device_class="h200", node="n", index=1)
    with database.begin() as connection:
        devices.register(connection, seen, worker="w1")
        devices.describe(connection, seen, {"driver": "1\x00", "clock": float("nan")})
        devices.register(connection, seen, worker="w2")
        (device,) = devices.listed(connection)
        assert (device.device, device.state, device.worker) == ("n.1", "online", "w2")
        assert device.fingerprint == {"driver": "1\ufffd", "clock": None}
        devices.leave(connection, worker="w1")
        assert devices.listed(connection)[0].state == "online"
        devices.leave(connection, worker="w2")
        assert devices.listed(connection)[0].state == "offline"
        devices.register(connection, seen, worker="w2")
        assert devices.listed(connection)[0].state == "online"


def test_a_device_has_one_worker(database: Database) -> None:
    register = partial(
        devices.register, place=DeviceId(device_class="h200", node="n", index=1), worker="h200-1@n"
    )
    first, second = (
        WorkerInstance(machine=name, namespace="1", pid=7, started="1") for name in ("a", "b")
    )
    other_index = DeviceId(device_class="h200", node="n", index=2)
    with database.begin() as connection:
        register(connection, instance=first)
        register(connection, instance=first, again=True)
        (rival,) = other_workers.of(connection, other_index, second)
        assert (rival.device.device, rival.instance, rival.address) == ("n.1", first, None)
        assert other_workers.of(connection, other_index, replace(first, pid=8)) == [], (
            "another device of this machine"
        )
        assert other_workers.of(connection, rival.device, replace(first, pid=8)) != [], (
            "the same one"
        )
        assert other_workers.of(connection, replace(other_index, node="m"), second) == []

        register(connection, instance=second)
        with pytest.raises(
            devices.TakenError, match=r"h200 n\.1: another worker has registered it since"
        ):
            register(connection, instance=first, again=True)
        devices.leave(connection, worker="h200-1@n", instance=first)
        assert devices.listed(connection)[0].state == "online", "the other one still serves it"

        connection.execute(
            sa.update(tables.devices).values(heartbeat_at=sa.func.now() - timedelta(minutes=1))
        )
        assert other_workers.of(connection, other_index, first) == []
        register(connection, instance=first, again=True)
        devices.leave(connection, worker="h200-1@n", instance=first)
        assert devices.listed(connection)[0].state == "offline"
        assert other_workers.of(connection, other_index, second) == []


def test_a_pinned_job_is_for_a_device_that_is_known(database: Database, broker: Celery) -> None:
    with database.begin() as connection:
        devices.register(connection, DeviceId(device_class="h200", node="n", index=1), worker="w")
    pinned = fakes.request(device_class="h200", device="n.1")
    assert len(enqueue.enqueue(database, broker, [pinned])) == 1
    with broker.connection_for_read() as connection_:
        queue = connection_.SimpleQueue("gpu.n.1")
        queue.get(timeout=5).ack()
        queue.close()


def test_a_connection_that_was_cut_is_an_error_once(database: Database) -> None:
    with (
        pytest.raises(DatabaseUnavailableError, match="terminating connection"),
        database.begin() as connection,
    ):
        connection.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")
    with database.begin() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1


def test_a_snapshot_sees_no_later_change_and_makes_none(database: Database, broker: Celery) -> None:
    with database.snapshot() as connection:
        assert sum(jobs.counts(connection).values()) == 0
        enqueue.enqueue(database, broker, [fakes.request()])
        assert sum(jobs.counts(connection).values()) == 0
    with database.begin() as connection:
        assert sum(jobs.counts(connection).values()) == 1
        assert connection.exec_driver_sql("SHOW transaction_read_only").scalar_one() == "off"


def test_a_process_that_stands_still_in_a_transaction_loses_its_locks(
    settings: Settings, database: Database
) -> None:
    assert settings.database_url is not None
    frozen = Database(settings.database_url, worker_idle_s=0.2)
    lock = sa.text("SELECT pg_advisory_xact_lock(7)")

    def stand_still() -> None:
        with frozen.begin() as connection:
            connection.execute(lock)
            with database.begin() as other:
                other.execute(lock)  # waits until the server has ended the first transaction
            connection.execute(lock)

    with pytest.raises(DatabaseUnavailableError, match=r"stopped in a transaction|closed"):
        stand_still()
    with frozen.begin() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar_one() == 1
    frozen.dispose()
