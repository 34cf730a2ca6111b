"""COLLECT: one call of a model: the endpoint, the request as sent, the answer as received.

Plain values that pass between the decisions (app.domain.collection), the HTTP client
(app.endpoints) and the records (app.store).  None means "not sent" in a request and
"not told" in an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from app.domain.trajectory import Message


class End(StrEnum):
    """Reason for which the model stopped, in one vocabulary for all servers."""

    STOP = "stop"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    REFUSED = "refused"
    TOOL_CALLS = "tool_calls"
    ABORT = "abort"
    UNKNOWN = "unknown"
    ERROR = "error"
    """No answer: `ModelAnswer.error` says why."""


BROKEN_OFF = frozenset({End.ABORT, End.ERROR})
"""Ends of an answer that the server broke off, as vLLM and SGLang do where they load new weights:
the part that came says nothing about the model.
"""


class ErrorKind(StrEnum):
    """Classes of failed calls.  All of them are infrastructure faults: none says
    anything about the model.
    """

    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    TIMEOUT_CONNECT = "timeout_connect"
    TIMEOUT_START = "timeout_start"
    """No first token in time."""
    TIMEOUT_IDLE = "timeout_idle"
    BROKEN_STREAM = "broken_stream"
    BAD_ANSWER = "bad_answer"
    CONTENT_POLICY = "content_policy"
    CONTEXT_OVERFLOW = "context_overflow"
    BAD_REQUEST = "bad_request"
    UNAUTHORISED = "unauthorised"
    QUOTA = "quota"
    NOT_FOUND = "not_found"
    LOST = "lost"
    """The worker ended while the call was in flight, so that its answer is unknown."""


class Retry(StrEnum):
    """Chance of a repeated call to succeed."""

    AGAIN = "again"
    """After a pause of the caller's choice."""
    WAIT = "wait"
    """After the pause that the server asks for."""
    NEVER = "never"


@dataclass(frozen=True, kw_only=True)
class Prices:
    """US dollars per million tokens, as typed in by the operator; None: not known."""

    input: float | None = None
    cached_input: float | None = None
    output: float | None = None


@dataclass(frozen=True, kw_only=True)
class EndpointConfig:
    """One model on one server."""

    name: str
    base_url: str
    dialect: str
    model: str
    key_env: str | None = None
    """Name of the environment variable that holds the key; the key itself is stored nowhere."""
    max_in_flight: int = 64
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    context_tokens: int | None = None
    """Prompt and answer together."""
    max_output_tokens: int | None = None
    prices: Prices = field(default_factory=Prices)
    stream: bool = True
    connect_s: float = 5.0
    first_token_s: float = 600.0
    idle_s: float = 120.0
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers of every request; never secrets."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of every body."""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    """Findings of the probe."""


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One call, as it is to be sent."""

    model: str
    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stream: bool = True
    want_token_ids: bool = False
    want_logprobs: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a dialect, sent as they are: `reasoning_effort`, `chat_template_kwargs` …"""
    request_id: str = ""
    """Unique to this try: sent as a header, so that server logs can be matched."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Token counts."""

    input: int | None = None
    cached_input: int | None = None
    """Part of `input` that the server had cached."""
    output: int | None = None
    """Reasoning included."""
    reasoning: int | None = None
    source: str = "unknown"
    """`reported` by the server, `counted` from token ids, or `unknown`."""


@dataclass(frozen=True, kw_only=True)
class CallError:
    """Reason for which a call has no answer."""

    kind: ErrorKind
    message: str
    retry: Retry = Retry.AGAIN
    retry_after_s: float | None = None
    paid: bool = False
    """The server may have generated, and charged for, tokens that did not arrive."""


@dataclass(frozen=True, kw_only=True)
class RateHeaders:
    """Rate limits as the server's headers state them."""

    remaining_requests: int | None = None
    reset_requests_s: float | None = None
    remaining_tokens: int | None = None
    reset_tokens_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class ModelAnswer:
    """Outcome of one call, whether it has an answer or an error."""

    text: str = ""
    reasoning: str | None = None
    reasoning_field: str | None = None
    """Name of the field in which the reasoning came."""
    finish_reason: str | None = None
    """Reason as the server reports it."""
    end: End = End.UNKNOWN
    provider_id: str | None = None
    request_id: str | None = None
    """Request id in the header of the server's answer."""
    model: str | None = None
    """Model as the server names it."""
    fingerprint: str | None = None
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    cost_source: str = "unknown"
    """`reported` by the server, `priced` from the endpoint's prices, or `unknown`."""
    prompt_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    """Natural logarithms of the probabilities of `token_ids`."""
    logprobs_mode: str | None = None
    template_sha256: str | None = None
    weight_version: str | None = None
    sent_at: datetime | None = None
    first_token_at: datetime | None = None
    last_at: datetime | None = None
    status: int | None = None
    """HTTP status."""
    body_sha256: str = ""
    """SHA-256 of the body as sent."""
    sent_body: bytes = b""
    """The body as sent; it never holds the key."""
    error: CallError | None = None
    rate: RateHeaders = field(default_factory=RateHeaders)
