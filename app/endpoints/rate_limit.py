"""COLLECT: permits for calls, counted in Redis, so that all workers of an endpoint share one limit.

Redis holds the calls in flight, each with a lease that its worker renews (one that is killed
gives its permits back by that), the outcomes of the current window, and the state of
`app.endpoints.congestion`.  The worker that completes a window takes it and computes the next
state; the others only add to it.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass

import redis

from app.broker import BrokerUnavailableError
from app.domain.collection.call import EndpointConfig, ModelAnswer
from app.endpoints import congestion, headers, redis_url
from app.endpoints.congestion import CallOutcome, State

PREFIX = "assay:rate"
LEASE_S = 60.0
"""Seconds after which a permit of a dead worker ends."""
RENEW_S = 15.0
"""Seconds between two renewals of a permit: three may fail before it ends."""
PAUSE_S = 0.05
"""Pause between two questions for a permit, in seconds."""
BUSY_SHARE = 0.8
"""Share of the limit in flight from which on a call may raise it: an idle endpoint proves
nothing.
"""

_ACQUIRE = """
local now = tonumber(redis.call('TIME')[1]) + tonumber(redis.call('TIME')[2]) / 1e6
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local blocked = tonumber(redis.call('GET', KEYS[3]) or '0')
if blocked > now and blocked < now + tonumber(ARGV[8]) then return {0, tostring(blocked - now)} end
local held = redis.call('ZCARD', KEYS[1])
local state = redis.call('GET', KEYS[2])
local limit = tonumber(ARGV[3])
if state then limit = cjson.decode(state).limit end
if held >= math.min(math.floor(limit), tonumber(ARGV[4])) then return {0, '0'} end
local per_minute = tonumber(ARGV[5])
if per_minute > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now - 60)
  if redis.call('ZCARD', KEYS[4]) >= per_minute then
    local oldest = redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')
    return {0, tostring(oldest[2] + 60 - now)}
  end
end
local tokens_per_minute = tonumber(ARGV[6])
if tokens_per_minute > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', now - 60)
  local used = 0
  for _, one in ipairs(redis.call('ZRANGE', KEYS[5], 0, -1)) do
    used = used + tonumber(string.match(one, '^(%d+):'))
  end
  if used >= tokens_per_minute then return {0, '1'} end
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
if per_minute > 0 then redis.call('ZADD', KEYS[4], now, ARGV[1]) end
local busy = 0
if held + 1 >= math.floor(limit) * tonumber(ARGV[7]) then busy = 1 end
return {1, tostring(busy), tostring(now)}
"""
"""Keys: in flight, state, blocked until, calls and tokens of the last minute.  A time further ahead
than any wait is of before Redis' clock was set back.
"""

_DONE = """
local now = tonumber(redis.call('TIME')[1]) + tonumber(redis.call('TIME')[2]) / 1e6
redis.call('ZREM', KEYS[1], ARGV[1])
if tonumber(ARGV[3]) > 0 then
  local until_s = now + tonumber(ARGV[3])
  if until_s > tonumber(redis.call('GET', KEYS[3]) or '0') then
    redis.call('SET', KEYS[3], tostring(until_s), 'EX', 7200)
  end
end
if tonumber(ARGV[4]) > 0 then redis.call('ZADD', KEYS[5], now, ARGV[4] .. ':' .. ARGV[1]) end
if ARGV[2] == '' then return false end
redis.call('RPUSH', KEYS[6], ARGV[2])
local state = redis.call('GET', KEYS[2])
local limit = tonumber(ARGV[6])
if state then limit = cjson.decode(state).limit end
local size = redis.call('LLEN', KEYS[6])
if ARGV[5] == '0' and size < math.max(tonumber(ARGV[7]), math.floor(limit)) then return false end
local window = redis.call('LRANGE', KEYS[6], 0, -1)
redis.call('DEL', KEYS[6])
return {state or '', tostring(now), window}
"""
"""The last key: outcomes of the window.  Returns the window to the worker that completes it."""


@dataclass(frozen=True, kw_only=True)
class Permit:
    """The right to one call."""

    permit_id: str
    granted_s: float
    """Time by Redis' clock."""
    busy: bool
    limiter: Limiter

    def done(self, answer: ModelAnswer | None) -> None:
        """Give it back, with the call's answer; None: no call was made."""
        self.limiter.done(self, answer)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The limit of an endpoint at this moment."""

    limit: int
    in_flight: int
    first_token_s: float | None
    """Lowest median time to the first token."""
    blocked_s: float
    """Time until the server takes calls again, as it asked for; 0 where it takes them now."""


class Limiter:
    """Permits of one endpoint.  Safe for greenlets and threads."""

    def __init__(self, config: EndpointConfig, broker_url: str) -> None:
        self._config = config
        self._client = redis_url.client(broker_url)
        names = ("flight", "state", "blocked", "calls", "tokens", "window")
        self._keys = [f"{PREFIX}:{{{config.name}}}:{name}" for name in names]
        self._held: set[str] = set()
        self._renewing = False
        self._lock = threading.Lock()
        self._acquire = self._client.register_script(_ACQUIRE)
        self._done = self._client.register_script(_DONE)

    def close(self) -> None:
        """Close the connections to Redis."""
        self._client.close()

    def acquire(self, timeout_s: float = 0.0) -> Permit | None:
        """A permit, or None where there was none for so long.  Raises BrokerUnavailableError."""
        until_s = time.monotonic() + timeout_s
        while True:
            permit, wait_s = self._ask()
            left_s = until_s - time.monotonic()
            if permit is not None or left_s <= 0 or wait_s > left_s:
                return permit
            time.sleep(min(left_s, max(PAUSE_S, wait_s)))

    def done(self, permit: Permit, answer: ModelAnswer | None) -> None:
        """See Permit.  Raises BrokerUnavailableError: the permit then ends by itself."""
        with self._lock:
            self._held.discard(permit.permit_id)
        ended = (
            None
            if answer is None
            else congestion.outcome(answer, sent_s=permit.granted_s, busy=permit.busy)
        )
        found = self._run(
            self._done,
            [
                permit.permit_id,
                json.dumps(asdict(ended)) if ended else "",
                _wait_s(answer),
                _tokens(answer),
                int(ended is not None and ended.congested),
                congestion.START,
                congestion.SAMPLES,
            ],
        )
        if found:
            state, now_s, window = found
            self._decide(state, float(now_s), [CallOutcome(**json.loads(one)) for one in window])

    def standing(self) -> Standing:
        """The limit as it is now.  Raises BrokerUnavailableError."""
        try:
            now_s = self._now_s()
            in_flight = self._client.zcount(self._keys[0], now_s, "+inf")
            state = _state(self._client.get(self._keys[1]))
            blocked = float(self._client.get(self._keys[2]) or 0)
        except redis.RedisError as error:
            raise BrokerUnavailableError(f"Redis: {error}") from error
        return Standing(
            limit=min(int(state.limit), self._config.max_in_flight),
            in_flight=int(in_flight),
            first_token_s=state.base_s,
            blocked_s=max(0.0, blocked - now_s),
        )

    def _now_s(self) -> float:
        """Redis' clock, which all workers share."""
        seconds, micros = self._client.time()
        return float(seconds + micros / 1e6)

    def _ask(self) -> tuple[Permit | None, float]:
        permit_id = secrets.token_hex(12)
        config = self._config
        given, told, *granted = self._run(
            self._acquire,
            [
                permit_id,
                LEASE_S,
                congestion.START,
                config.max_in_flight,
                config.requests_per_minute or 0,
                config.tokens_per_minute or 0,
                BUSY_SHARE,
                2 * headers.LONGEST_WAIT_S,
            ],
        )
        if not given:
            return None, float(told)
        self._hold(permit_id)
        return (
            Permit(
                permit_id=permit_id, granted_s=float(granted[0]), busy=float(told) > 0, limiter=self
            ),
            0.0,
        )

    def _hold(self, permit_id: str) -> None:
        """Keep the permit's lease alive until it is given back."""
        with self._lock:
            self._held.add(permit_id)
            if not self._renewing:
                self._renewing = True
                threading.Thread(target=self._renew, daemon=True).start()

    def _renew(self) -> None:
        while True:
            time.sleep(RENEW_S)
            with self._lock:
                held = list(self._held)
                self._renewing = bool(held)
            if not held:
                return
            with suppress(redis.RedisError):  # the next round tries again, before the lease ends
                end_s = self._now_s() + LEASE_S
                self._client.zadd(self._keys[0], dict.fromkeys(held, end_s), xx=True)

    def _decide(self, before: str | bytes, now_s: float, window: list[CallOutcome]) -> None:
        """Store the next state.  Two windows at a time are rare, and the later state
        then counts.
        """
        state = congestion.after(
            _state(before), window, now_s=now_s, most=self._config.max_in_flight
        )
        try:
            self._client.set(self._keys[1], json.dumps(asdict(state)))
        except redis.RedisError as error:
            raise BrokerUnavailableError(f"Redis: {error}") from error

    def _run(self, script: redis.commands.core.Script, values: list[str | float]) -> list[str]:
        try:
            found: list[str] = script(keys=self._keys, args=values)
        except redis.RedisError as error:
            raise BrokerUnavailableError(f"Redis: {error}") from error
        return found


def _state(text: str | bytes | None) -> State:
    return State(**json.loads(text)) if text else State()


def _wait_s(answer: ModelAnswer | None) -> float:
    """Time that all calls have to wait, as the server asks for."""
    if answer is None:
        return 0.0
    asked = answer.error.retry_after_s if answer.error else None
    return max(asked or 0.0, headers.wait_s(answer.rate))


def _tokens(answer: ModelAnswer | None) -> int:
    if answer is None:
        return 0
    return (answer.usage.input or 0) + (answer.usage.output or 0)
