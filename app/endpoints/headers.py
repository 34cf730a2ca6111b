"""COLLECT: limits that a provider states in the headers of its responses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from app.domain.collection.call import RateHeaders

LONGEST_WAIT_S = 3600.0
"""A wait asked for beyond this is cut: a provider's clock may be wrong."""
EPOCH_S = 1e9
"""A number of seconds beyond this is a time of day: seconds since 1970, or milliseconds where
it is a thousand times as much.
"""

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_ID_HEADERS = ("x-request-id", "request-id", "x-generation-id", "cf-ray")


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Limits beside one answer, and how long to wait."""

    rate: RateHeaders = field(default_factory=RateHeaders)
    retry_after_s: float | None = None
    """Time to wait that the provider asks for."""
    should_retry: bool | None = None
    """`x-should-retry`, where it is given."""


def read(headers: Mapping[str, str], now: datetime | None = None) -> Advice:
    """Limits in the headers of a response.  Malformed values are ignored: they are hints."""
    now = now or datetime.now(UTC)
    told = {name.lower(): value.strip() for name, value in headers.items()}
    requests = _bucket(told, ("requests",), now)
    tokens = _bucket(told, ("tokens", "output-tokens", "input-tokens"), now)
    rate = RateHeaders(
        remaining_requests=requests[1],
        reset_requests_s=requests[2],
        remaining_tokens=tokens[1],
        reset_tokens_s=tokens[2],
    )
    return Advice(
        rate=rate,
        retry_after_s=_retry_after(told, now),
        should_retry={"true": True, "false": False}.get(told.get("x-should-retry", "").lower()),
    )


def wait_s(rate: RateHeaders) -> float:
    """Time until an empty bucket refills; 0 while there is something left."""
    waits = [0.0]
    for remaining, reset_s in (
        (rate.remaining_requests, rate.reset_requests_s),
        (rate.remaining_tokens, rate.reset_tokens_s),
    ):
        if remaining == 0 and reset_s:
            waits.append(reset_s)
    return min(LONGEST_WAIT_S, max(waits))


def request_id(headers: Mapping[str, str]) -> str | None:
    """The provider's own id of the call."""
    told = {name.lower(): value for name, value in headers.items()}
    return next((told[name] for name in _ID_HEADERS if told.get(name)), None)


def seconds(text: str, now: datetime) -> float | None:
    """A span of time (`6m0s`, `12ms`, `1.5`), or the time until a date (RFC 3339, HTTP, seconds
    or milliseconds since 1970); None for anything else, and for a negative number, with which
    Azure says that it does not know.
    """
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        if not 0 <= number < float("inf"):
            return None
        if number < EPOCH_S:
            return number
        return max(0.0, number / (1 if number < 1000 * EPOCH_S else 1000) - now.timestamp())
    if text and re.fullmatch(rf"(?:{_SPAN.pattern})+", text):
        return sum(float(count) * _UNITS_S[unit] for count, unit in _SPAN.findall(text))
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            then = parse(text)
        except (ValueError, TypeError):
            continue
        then = then if then.tzinfo else then.replace(tzinfo=UTC)
        return max(0.0, (then - now).total_seconds())
    return None


_Bucket = tuple[int | None, int | None, float | None]
"""Limit, remaining, seconds until it is full again."""


def _bucket(told: Mapping[str, str], names: tuple[str, ...], now: datetime) -> _Bucket:
    """The tightest of the buckets of that kind."""
    found: list[_Bucket] = []
    for name in names:
        for prefix in ("x-ratelimit-{part}-" + name, "anthropic-ratelimit-" + name + "-{part}"):
            limit, remaining, reset = (
                told.get(prefix.format(part=part)) for part in ("limit", "remaining", "reset")
            )
            bucket = _count(limit), _count(remaining), seconds(reset, now) if reset else None
            if bucket[:2] != (None, None):
                found.append(bucket)
    known = [bucket for bucket in found if bucket[1] is not None]
    return min(known, key=lambda one: one[1] or 0) if known else (found or [(None, None, None)])[0]


def _count(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


def _retry_after(told: Mapping[str, str], now: datetime) -> float | None:
    exact = told.get("retry-after-ms")
    if exact and (found := seconds(exact, now)) is not None:
        return min(LONGEST_WAIT_S, found / 1000)
    asked = told.get("retry-after")
    found = seconds(asked, now) if asked else None
    return None if found is None else min(LONGEST_WAIT_S, found)
