"""Permits in Redis, shared by workers."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.broker import BrokerUnavailableError
from app.domain.collection.call import (
    CallError,
    EndpointConfig,
    ErrorKind,
    ModelAnswer,
    RateHeaders,
    Usage,
)
from app.endpoints import rate_limit, redis_url
from app.endpoints.rate_limit import Limiter


def config(**fields) -> EndpointConfig:
    given = {
        "name": "local",
        "base_url": "http://h/v1",
        "dialect": "vllm",
        "model": "m",
        "max_in_flight": 100,
    }
    return EndpointConfig(**{**given, **fields})


def answered(first_token_s: float = 0.1, error: CallError | None = None, **fields) -> ModelAnswer:
    now = datetime.now(UTC)
    first = None if error else now + timedelta(seconds=first_token_s)
    return ModelAnswer(sent_at=now, first_token_at=first, error=error, **fields)


REFUSED = CallError(kind=ErrorKind.RATE_LIMITED, message="slow down")


@pytest.fixture
def limiter(settings) -> Limiter:
    return Limiter(config(), settings.broker_url)


def taken(limiter: Limiter) -> list:
    permits = []
    while (permit := limiter.acquire()) is not None:
        permits.append(permit)
    return permits


def test_two_workers_share_one_limit(limiter, settings):
    other = Limiter(config(), settings.broker_url)
    first = [limiter.acquire() for _ in range(5)]
    assert len(taken(other)) == 3
    first[0].done(None)
    assert other.acquire() is not None
    assert limiter.standing().in_flight == 8


def test_other_endpoints_have_limits_of_their_own(limiter, settings):
    assert len(taken(limiter)) == 8
    assert Limiter(config(name="other"), settings.broker_url).acquire() is not None


def test_the_limit_grows_with_successes_up_to_the_most(settings):
    limiter = Limiter(config(max_in_flight=20), settings.broker_url)
    sizes = []
    for _ in range(3):
        permits = taken(limiter)
        sizes.append(len(permits))
        for permit in permits:
            permit.done(answered())
    assert sizes[0] == 8
    assert sizes[0] < sizes[1] <= sizes[2] == 20


def test_a_refusal_cuts_at_once(limiter):
    limiter.acquire().done(answered(error=REFUSED))
    assert len(taken(limiter)) == 6


def test_a_server_that_asks_to_wait_gets_no_calls_until_then(limiter):
    error = CallError(kind=ErrorKind.RATE_LIMITED, message="", retry_after_s=0.6)
    limiter.acquire().done(answered(error=error))
    assert limiter.acquire(timeout_s=0.1) is None
    assert 0 < limiter.standing().blocked_s <= 0.7
    assert limiter.acquire(timeout_s=5) is not None


def test_an_empty_bucket_in_the_headers_is_waited_for(limiter):
    limiter.acquire().done(answered(rate=RateHeaders(remaining_requests=0, reset_requests_s=60.0)))
    assert limiter.acquire() is None


def test_calls_and_tokens_of_a_minute_are_limited(settings):
    limiter = Limiter(config(name="a", requests_per_minute=3), settings.broker_url)
    assert len(taken(limiter)) == 3
    limiter = Limiter(config(name="b", tokens_per_minute=1000), settings.broker_url)
    limiter.acquire().done(answered(usage=Usage(input=600, output=500)))
    assert limiter.acquire() is None


def test_a_waiting_call_gets_the_next_permit(limiter):
    permits = taken(limiter)
    timer = threading.Timer(0.2, permits[0].done, [None])
    timer.start()
    assert limiter.acquire(timeout_s=5) is not None
    timer.join()


def test_permits_of_a_dead_worker_end(settings, monkeypatch):
    monkeypatch.setattr(rate_limit, "LEASE_S", 1.0)
    limiter = Limiter(config(), settings.broker_url)
    assert len(taken(limiter)) == 8
    time.sleep(1.1)
    assert len(taken(limiter)) == 8


def test_leases_of_a_living_worker_are_renewed(settings, monkeypatch):
    monkeypatch.setattr(rate_limit, "LEASE_S", 1.5)
    monkeypatch.setattr(rate_limit, "RENEW_S", 0.1)
    limiter = Limiter(config(), settings.broker_url)
    permits = taken(limiter)
    time.sleep(2.0)
    assert limiter.standing().in_flight == 8
    for permit in permits:
        permit.done(None)


def test_threads_never_hold_more_than_the_limit(limiter, settings):
    held, most, lock = [0], [0], threading.Lock()

    def work() -> None:
        own = Limiter(config(), settings.broker_url)
        for _ in range(5):
            permit = own.acquire(timeout_s=20)
            with lock:
                held[0] += 1
                most[0] = max(most[0], held[0])
            with lock:
                held[0] -= 1
            permit.done(None)

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] <= 8
    assert limiter.standing().in_flight == 0


def test_a_broker_that_is_gone_is_named():
    with pytest.raises(BrokerUnavailableError, match="Redis"):
        Limiter(config(), "redis://127.0.0.1:1/0").acquire()


def test_a_worker_whose_clock_is_wrong_counts(settings):
    limiter = Limiter(config(), settings.broker_url)
    for permit in taken(limiter):
        permit.done(answered(error=REFUSED))
    cut = limiter.standing().limit
    for _ in range(3):
        for permit in taken(limiter):
            late = answered()
            permit.done(
                replace(late, sent_at=late.sent_at - timedelta(days=1), first_token_at=None)
            )
    assert limiter.standing().limit > cut


def test_a_wait_of_before_the_clock_was_set_back_is_over(settings, limiter):
    permit = limiter.acquire()
    permit.done(answered(error=replace(REFUSED, retry_after_s=60.0)))
    assert limiter.acquire() is None
    client = redis_url.client(settings.broker_url)
    (key,) = client.keys("assay:rate:*:blocked")
    client.set(key, time.time() + 18_000)  # five hours ahead, as after setting the clock back
    assert limiter.acquire() is not None
