"""Faults of an endpoint during a collection: tried again, waited for, never scored."""

from __future__ import annotations

from uuid import UUID

import pytest
from celery import Celery

from app.collect import calls
from app.domain.collection.call import (
    ErrorKind,
    Retry,
)
from app.domain.collection.states import CollectionState
from app.domain.collection.stop_reasons import StopReason
from app.store.collection import lifecycle
from app.store.postgres.database import Database
from tests.integration.collecting import CODE, Site, refused, said, specification


@pytest.fixture
def site(database: Database, broker: Celery, problem_id: UUID) -> Site:
    return Site(database, broker, lambda request: said(CODE))


def test_a_fault_of_the_endpoint_is_tried_again_and_never_scored(site: Site) -> None:
    count = iter(range(100))
    failing = refused(ErrorKind.SERVER_ERROR)
    site.model = lambda request: failing if next(count) % 3 else said(CODE)
    collection_id = site.start(specification())
    site.run()
    assert site.collection(collection_id).spent.calls > 3
    states = [call.state for call in site.rows("model_calls")]
    assert states.count("answered") == 3
    assert states.count("failed") == len(states) - 3


@pytest.mark.parametrize("kind", sorted(calls.AWAY))
def test_an_endpoint_that_has_answered_is_waited_for(site: Site, kind: ErrorKind) -> None:
    """It restarts, or has a limit: a rollout is not ended by as many refusals as an
    answer has tries.
    """
    broken = [refused(ErrorKind.SERVER_ERROR)] * 2  # a server that has just begun may be so
    answers = iter([said(CODE), *[refused(kind)] * 12, *broken, said(CODE)])
    site.model = lambda request: next(answers)
    site.start(specification(tries=3, strategy={"name": "sequential", "turns": 2}))
    site.run()
    (rollout,) = site.rows("collection_rollouts")
    assert (rollout.stop_reason, len(site.asked)) == (StopReason.MAX_TURNS, 16)


def test_a_call_that_is_always_refused_ends_although_others_are_answered(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MOST_TRIES", 8)
    site.model = lambda request: (
        said(CODE) if len(request.messages) == 1 else refused(ErrorKind.OVERLOADED)
    )
    site.start(specification(tries=3))
    site.run()
    (rollout,) = site.rows("collection_rollouts")
    assert (rollout.stop_reason, len(site.asked)) == (StopReason.ENDPOINT_ERROR, 1 + 8 + 2)


def test_a_server_that_fails_is_not_waited_for(site: Site) -> None:
    site.model = lambda request: (
        said(CODE) if len(request.messages) == 1 else refused(ErrorKind.SERVER_ERROR)
    )
    site.start(specification(tries=3))
    site.run()
    (rollout,) = site.rows("collection_rollouts")
    assert (rollout.stop_reason, len(site.asked)) == (StopReason.ENDPOINT_ERROR, 4)


def test_an_endpoint_that_goes_on_failing_stops_the_rollout_as_a_fault(site: Site) -> None:
    site.model = lambda request: refused(ErrorKind.SERVER_ERROR)
    site.start(specification(tries=3))
    site.run()
    (rollout,) = site.rows("collection_rollouts")
    assert rollout.stop_reason == StopReason.ENDPOINT_ERROR
    assert len(site.asked) == 3
    assert not site.rows("turns")


@pytest.mark.parametrize("kind", sorted(calls.AWAY))
def test_an_endpoint_that_has_never_answered_pauses_the_collection(
    site: Site, kind: ErrorKind
) -> None:
    """Its server loads a model for minutes: nothing is lost, and every try is left."""
    site.model = lambda request: refused(kind)
    budget = {"collection": {"calls": 4}}
    collection_id = site.start(specification(tries=3, budgets=budget))
    site.run()
    found = site.collection(collection_id)
    assert (found.state, found.spent.calls) == (CollectionState.PAUSED, 0)
    assert (found.reason, len(site.asked)) == ("endpoint local: no", 3)
    broken = [refused(ErrorKind.SERVER_ERROR)] * 2
    answers = iter([*broken, *[said(CODE)] * 2])
    site.model = lambda request: next(answers)
    with site.database.begin() as connection:
        lifecycle.resume(connection, collection_id)
    site.run()
    (rollout,) = site.rows("collection_rollouts")
    assert (rollout.stop_reason, len(site.rows("turns"))) == (StopReason.BUDGET, 2)


def test_an_endpoint_that_stays_away_pauses_the_collection(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused connections are counted against no answer, however many they are."""
    monkeypatch.setattr(calls, "MOST_TRIES", 8)
    away = refused(ErrorKind.TIMEOUT_CONNECT)
    answers = iter([said(CODE), *[away] * 12])
    site.model = lambda request: next(answers, away)
    collection_id = site.start(specification(tries=3))
    site.run_until(lambda: len(site.asked) == 13)
    assert site.collection(collection_id).state is CollectionState.RUNNING
    monkeypatch.setattr(calls, "AWAY_S", 0.0)  # the hour is over
    site.run()
    assert site.collection(collection_id).state is CollectionState.PAUSED
    with site.database.begin() as connection:
        lifecycle.resume(connection, collection_id)
    site.model = lambda request: said(CODE)
    site.run()
    (rollout,) = site.rows("collection_rollouts")
    assert (rollout.stop_reason, len(site.rows("turns"))) == (StopReason.MAX_TURNS, 3)


@pytest.mark.parametrize("kind", [ErrorKind.QUOTA, ErrorKind.UNAUTHORISED])
def test_a_refused_key_pauses_the_collection_and_costs_no_attempt(
    site: Site, kind: ErrorKind
) -> None:
    site.model = lambda request: refused(kind, retry=Retry.NEVER)
    collection_id = site.start(specification())
    site.run()
    assert site.collection(collection_id).state is CollectionState.PAUSED
    assert "endpoint local: no" in site.collection(collection_id).reason
    site.model = lambda request: said(CODE)
    with site.database.begin() as connection:
        lifecycle.resume(connection, collection_id)
    site.run()
    assert site.collection(collection_id).state is CollectionState.FINISHED
    assert len(site.rows("turns")) == 3


def test_a_request_that_an_endpoint_never_takes_pauses_the_collection(site: Site) -> None:
    """A parameter that it does not know would end every rollout as a fault."""
    unknown = refused(ErrorKind.BAD_REQUEST, retry=Retry.NEVER)
    site.model = lambda request: unknown
    collection_id = site.start(specification())
    site.run()
    assert (site.collection(collection_id).state, len(site.asked)) == (CollectionState.PAUSED, 1)
    site.model = lambda request: said(CODE) if len(request.messages) == 1 else unknown
    with site.database.begin() as connection:
        lifecycle.resume(connection, collection_id)
    site.run()
    (rollout,) = site.rows("collection_rollouts")
    assert (rollout.stop_reason, len(site.asked)) == (StopReason.ENDPOINT_ERROR, 3)


def test_a_context_that_is_too_long_ends_the_line(site: Site) -> None:
    overflow = refused(ErrorKind.CONTEXT_OVERFLOW, retry=Retry.NEVER)
    site.model = lambda request: said(CODE) if len(request.messages) == 1 else overflow
    site.start(specification())
    site.run()
    (rollout,) = site.rows("collection_rollouts")
    assert rollout.stop_reason == StopReason.CONTEXT_OVERFLOW
    assert rollout.picked == ["0.0"]
