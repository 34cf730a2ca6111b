"""COLLECT: a dialect: request → body, and body or events → reading.  Pure: no
connection, no clock.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from app.domain.collection.call import EndpointConfig, ModelRequest, Usage
from app.domain.request import RequestError
from app.domain.source import source_text
from app.endpoints.sse import Event

MOST_TOKENS = 1 << 40
"""Tokens that a server may report for one answer; a larger number is no count."""
MOST_ID = (1 << 31) - 1
"""Largest token id: they are stored as int32."""
LARGEST_FLOAT32 = 3.4e38
MOST_USD = 1e6
"""Cost that a server may report for one answer."""
BEGINNING = 60
"""Characters of a body that is no JSON, as an error quotes it."""


class MalformedAnswerError(ValueError):
    """An answer that is not of the dialect: no JSON, no choice, values of another type."""


@dataclass(frozen=True, kw_only=True)
class HttpCall:
    """A request to send: path below the base address, headers without the key, body as JSON."""

    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StatedError:
    """An error as the server states it in a body or an event."""

    message: str
    kind: str = ""
    """`type` or `code` as text: `insufficient_quota`, `overloaded_error` …"""
    status: int | None = None
    """HTTP status that the body states, where the response itself has 200."""
    moderated: bool = False


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Facts of an answer, as far as it has come."""

    text: str = ""
    reasoning: str | None = None
    reasoning_field: str | None = None
    finish_reason: str | None = None
    refused: bool = False
    provider_id: str | None = None
    model: str | None = None
    fingerprint: str | None = None
    weight_version: str | None = None
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    error: StatedError | None = None
    complete: bool = True
    """False for a stream without its end."""


class Assembly(Protocol):
    """An answer in the making, out of the events of a stream."""

    def feed(self, event: Event) -> bool:
        """Add an event; True if it brought a part of the answer.  Raises MalformedAnswerError."""

    @property
    def over(self) -> bool:
        """True after the stream's last event."""

    @property
    def length(self) -> int:
        """Characters so far."""

    def reading(self) -> Reading:
        """Facts so far."""


class Dialect(Protocol):
    """One family of servers."""

    streams_token_ids: bool
    """False where token ids come only with whole bodies."""

    def build(self, request: ModelRequest, endpoint: EndpointConfig) -> HttpCall:
        """The request as this server wants it.  Raises RequestError."""

    def authorisation(self, key: str) -> Mapping[str, str]:
        """Headers that carry the key."""

    def read(self, body: Mapping[str, Any]) -> Reading:
        """Facts of a whole body.  Raises MalformedAnswerError."""

    def assembly(self) -> Assembly:
        """An empty answer."""


def merged(
    body: Mapping[str, Any], endpoint: EndpointConfig, request: ModelRequest
) -> dict[str, Any]:
    """The body with the extras of endpoint and request.  Raises RequestError where an extra is a
    parameter that has a field of its own: the record would then differ from the request sent."""
    extra = {**endpoint.extra, **request.extra}
    if taken := sorted(set(extra) & (set(body) | RESERVED)):
        raise RequestError(f"extra: expected parameters without a field, got {', '.join(taken)}")
    return {**{name: value for name, value in body.items() if value is not None}, **extra}


RESERVED = frozenset({"model", "messages", "stream", "stream_options", "n", "seed", "system"})


_decoder = msgspec.json.Decoder()


def decoded(data: str | bytes) -> Mapping[str, Any]:
    """The JSON object that a server sends, also with lone surrogates and NaN, which JSON does not
    have and some servers write.  Raises MalformedAnswerError.
    """
    try:
        value = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _leniently(data)
    if not isinstance(value, dict):
        raise MalformedAnswerError(f"expected a JSON object, got {type(value).__name__}")
    return value


def _leniently(data: str | bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        text = data if isinstance(data, str) else data[: 4 * BEGINNING].decode("utf-8", "replace")
        shown = source_text.printable(" ".join(text.split()))[:BEGINNING]
        raise MalformedAnswerError(f"expected JSON, got {shown!r}: {error}"[:300]) from error


def piece_of(value: Any) -> str:
    """A piece of text out of JSON, to be joined: half of a surrogate pair may end it."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedAnswerError(f"expected text, got {type(value).__name__}")
    return value


def joined(pieces: Iterable[str]) -> str:
    """The text of the pieces, with lone surrogates replaced: they are no text in UTF-8."""
    text = "".join(pieces)
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def text_of(value: Any) -> str:
    """A whole text out of JSON."""
    return joined([piece_of(value)])


def optional_text(value: Any) -> str | None:
    """The text, or None for a value of another type."""
    return text_of(value) if isinstance(value, str) else None


def count_of(value: Any) -> int | None:
    """A count of tokens, also as `50.0`; None for anything else."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= MOST_TOKENS
    ):
        return None
    return int(value) if value == int(value) else None


def logprob_of(value: Any) -> float:
    """A logarithm of a probability.  Raises MalformedAnswerError."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known or not abs(value) <= LARGEST_FLOAT32:
        raise MalformedAnswerError(f"logprob: expected a finite number, got {value!r:.40}")
    return float(value)


def cost_of(value: Any) -> float | None:
    """A cost in USD; None for a value that is none."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known and math.isfinite(value) and 0 <= value <= MOST_USD else None


def mapping_of(value: Any) -> Mapping[str, Any]:
    """The object, or an empty one for a value of another type."""
    return value if isinstance(value, dict) else {}


def ids_of(value: Any) -> list[int] | None:
    """Token ids, or None where there are none."""
    if not isinstance(value, list):
        return None
    if not all(isinstance(one, int) and 0 <= one <= MOST_ID for one in value):
        raise MalformedAnswerError(f"token ids: expected whole numbers from 0 to {MOST_ID}")
    return value


def stated_error(value: Any) -> StatedError | None:
    """The error in an `error` field: an object, or a text."""
    if not value:
        return None
    if isinstance(value, str):
        return StatedError(message=text_of(value))
    told = mapping_of(value)
    code = told.get("code")
    kinds = [one for one in (told.get("type"), code) if isinstance(one, str)]
    message = optional_text(told.get("message")) or str(value)[:500]
    detail = optional_text(mapping_of(told.get("metadata")).get("raw"))
    return StatedError(
        message=f"{message}: {detail}" if detail else message,
        kind=" ".join(kinds),
        status=_status_of(code) or _status_of(told.get("status")),
        moderated="reasons" in mapping_of(told.get("metadata")),
    )


def _status_of(value: Any) -> int | None:
    """An HTTP status, also as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:4])
    return value if isinstance(value, int) and 100 <= value < 600 else None
