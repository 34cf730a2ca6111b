"""COLLECT: one call over HTTP: sent, read as it streams, timed, classified.

Waiting happens in sockets, so that under gevent a thousand calls are a thousand greenlets.  Nothing
that a server does is an exception here: an answer has a text or an error (app.domain.collection).
"""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import urllib3
from urllib3.exceptions import HTTPError, LocationValueError, ReadTimeoutError

from app.domain.collection.call import (
    BROKEN_OFF,
    CallError,
    End,
    EndpointConfig,
    ErrorKind,
    ModelAnswer,
    ModelRequest,
)
from app.domain.request import RequestError
from app.endpoints import connection, cost, dialects, errors, finish, headers
from app.endpoints.dialects.base import (
    Dialect,
    MalformedAnswerError,
    Reading,
    StatedError,
    decoded,
    stated_error,
)
from app.endpoints.sse import Decoder, Event, MalformedStreamError

LONGEST_ANSWER = 8 << 20
"""Characters of text and reasoning; the connection is closed at this length."""
LONGEST_BODY_BYTES = 64 << 20
"""A body with ids and logprobs of 100,000 tokens takes 10 MB."""
LONGEST_TEXT = 2000
"""Bytes of a refusal that is no JSON, such as a proxy's page."""
LONGEST_HEAD_BYTES = 64 << 10
"""Bytes of a stream that are kept until its first event: some servers send an error
there as a whole body.
"""
EVENTS = (b"data:", b"event:", b": ")
"""Beginnings of a stream of events, which some servers send under another content type."""
PING = "ping"
"""Name of Anthropic's events that keep a connection open."""
CALL_S = 3600.0
"""Longest call, whatever its server sends."""
TRAILER_S = 0.5
"""Time for the end of a body after its last event; without it the connection is closed."""
USER_AGENT = "assay-collect"


def key_of(endpoint: EndpointConfig) -> str | None:
    """The key, from the environment variable that the endpoint names; None where it names none.

    Raises RequestError with the variable's name where it is not set."""
    if endpoint.key_env is None:
        return None
    key = os.environ.get(endpoint.key_env, "").strip()
    if not key:
        raise RequestError(
            f"endpoint {endpoint.name!r}: expected its key in the environment variable "
            f"{endpoint.key_env}, which is not set"
        )
    if not (key.isascii() and key.isprintable()):  # the error of a header would repeat it
        raise RequestError(
            f"endpoint {endpoint.name!r}: expected a key of printable ASCII characters in the"
            f" environment variable {endpoint.key_env}, got others"
        )
    return key


def call(endpoint: EndpointConfig, request: ModelRequest, *, key: str | None = None) -> ModelAnswer:
    """The answer, or the error, of one call.  Raises RequestError for a request that the dialect
    cannot express, and UnknownPluginError for a dialect that does not exist."""
    dialect = dialects.find(endpoint.dialect)
    http = dialect.build(request, endpoint)
    body = json.dumps(http.body, ensure_ascii=False).encode("utf-8", "replace")
    sent = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Accept": "text/event-stream" if http.body.get("stream") else "application/json",
        "User-Agent": USER_AGENT,
        **endpoint.headers,
        **http.headers,
        **(dialect.authorisation(key) if key else {}),
    }
    running = _Call(endpoint=endpoint, dialect=dialect, body=_Body(body))
    answer = running.answer(endpoint.base_url.rstrip("/") + http.path, sent)
    answer = cost.priced(answer, endpoint)
    if answer.error is None:
        return answer
    return replace(answer, error=errors.without(key, answer.error))


class _Body:
    """A body that notes whether its sending has begun: before that, nothing was
    asked for and nothing can cost.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.begun = False

    def read(self, _size: int = -1) -> bytes:
        """All of it at once, then nothing."""
        data = b"" if self.begun else self.data
        self.begun = True
        return data


@dataclass(kw_only=True)
class _Call:
    """One call while it lasts."""

    endpoint: EndpointConfig
    dialect: Dialect
    body: _Body
    sent_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    started_s: float = field(default_factory=time.monotonic)
    first_token_at: datetime | None = None
    heard_s: float = 0.0
    """Time (time.monotonic) of the last event that is more than a sign of life."""
    status: int | None = None
    advice: headers.Advice = field(default_factory=headers.Advice)
    request_id: str | None = None

    def answer(self, url: str, sent: Mapping[str, str]) -> ModelAnswer:
        """Send, read, and say how it went."""
        try:
            response = self._sent(url, sent)
        except HTTPError as error:
            return self._failed(self._unsent(error))
        try:
            return self._read(response)
        except (HTTPError, OSError) as error:
            response.close()
            return self._failed(self._broken(error))
        except MalformedAnswerError as error:
            response.close()
            return self._failed(errors.failed(ErrorKind.BAD_ANSWER, str(error), paid=True))
        finally:
            response.release_conn()

    def _sent(self, url: str, sent: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        timeout = urllib3.Timeout(connect=self.endpoint.connect_s, read=self.endpoint.first_token_s)
        response = connection.pool().urlopen(
            "POST",
            url,
            body=self.body,
            headers=dict(sent),
            timeout=timeout,
            preload_content=False,
            redirect=False,
        )
        self.status = response.status
        self.advice = headers.read(response.headers)
        self.request_id = headers.request_id(response.headers)
        return response

    def _read(self, response: urllib3.BaseHTTPResponse) -> ModelAnswer:
        streamed = "event-stream" in response.headers.get("Content-Type", "").lower()
        if response.status == 200 and streamed:
            return self._read_stream(response)
        data = self._whole(response)
        if response.status != 200:
            return self._refused(response, data)
        if data.lstrip().startswith(EVENTS):
            return self._read_events(data)
        return self._concluded(self.dialect.read(decoded(data)))

    def _read_events(self, data: bytes) -> ModelAnswer:
        """Read a stream that came as a whole body."""
        assembly = self.dialect.assembly()
        try:
            for event in Decoder().feed(data):
                assembly.feed(event)
        except MalformedStreamError as error:
            return self._done(assembly.reading(), self._broken(error))
        return self._concluded(assembly.reading())

    def _read_stream(self, response: urllib3.BaseHTTPResponse) -> ModelAnswer:
        """Read to the end, an error, or the longest answer.  A broken stream keeps
        the part that arrived.
        """
        decoder, assembly, head = Decoder(), self.dialect.assembly(), bytearray()
        try:
            for piece in connection.pieces(response):
                for event in decoder.feed(piece):
                    self._hear(event, told=assembly.feed(event))
                if not self.heard_s and len(head) < LONGEST_HEAD_BYTES:
                    head += piece
                if assembly.length > LONGEST_ANSWER:
                    response.close()
                    cut = replace(assembly.reading(), finish_reason=finish.CUT_BY_CLIENT)
                    return self._done(cut)
                connection.limit(response, self._patience_s(over=assembly.over))
        except (HTTPError, OSError, MalformedStreamError) as error:
            response.close()
            if not assembly.over:
                return self._done(assembly.reading(), self._broken(error))
        return self._concluded(_whole_in(self.dialect, head) or assembly.reading())

    def _hear(self, event: Event, *, told: bool) -> None:
        """Note an event.  `told`: it brought a part of the answer."""
        if event.name != PING:
            self.heard_s = time.monotonic()
        if told and self.first_token_at is None:
            self.first_token_at = self._now()

    def _concluded(self, reading: Reading) -> ModelAnswer:
        """The answer of a body or a stream that is over."""
        if reading.complete or reading.error:
            return self._done(reading)
        message = f"the answer ended before it was complete: finish reason {reading.finish_reason}"
        return self._done(reading, errors.failed(ErrorKind.BROKEN_STREAM, message, paid=True))

    def _whole(self, response: urllib3.BaseHTTPResponse) -> bytes:
        found, size = [], 0
        for piece in connection.pieces(response):
            found.append(piece)
            size += len(piece)
            if size > LONGEST_BODY_BYTES:
                response.close()
                raise MalformedAnswerError(f"body: expected at most {LONGEST_BODY_BYTES} bytes")
            connection.limit(response, min(self.endpoint.first_token_s, self._left_s()))
        return b"".join(found)

    def _patience_s(self, *, over: bool) -> float:
        """Longest wait for the next piece: after the last event only the end of the body is due."""
        if over:
            return TRAILER_S
        if self.first_token_at is not None:
            return min(self.endpoint.idle_s - (time.monotonic() - self.heard_s), self._left_s())
        waited_s = time.monotonic() - self.started_s
        return min(self.endpoint.first_token_s - waited_s, self._left_s())

    def _now(self) -> datetime:
        """The time, by the clock that no one sets: differences are times that passed."""
        return self.sent_at + timedelta(seconds=time.monotonic() - self.started_s)

    def _left_s(self) -> float:
        return self.started_s + CALL_S - time.monotonic()

    def _refused(self, response: urllib3.BaseHTTPResponse, data: bytes) -> ModelAnswer:
        stated = _stated(data)
        if 300 <= response.status < 400:
            stated = replace(stated, message=f"redirect to {response.headers.get('Location')}")
        return self._failed(errors.classified(response.status, stated, self.advice))

    def _unsent(self, error: HTTPError) -> CallError:
        """The error of a request without a response."""
        if isinstance(error, LocationValueError) or _is_refused_certificate(
            error
        ):  # so will be every other call
            return errors.failed(ErrorKind.NOT_FOUND, _told(error))
        if not self.body.begun:
            return errors.failed(ErrorKind.TIMEOUT_CONNECT, _told(error))
        if isinstance(error, ReadTimeoutError):
            return self._broken(error)
        return errors.failed(ErrorKind.BROKEN_STREAM, _told(error), paid=True)

    def _broken(self, error: Exception) -> CallError:
        """The error of a response that was cut off."""
        if not isinstance(error, ReadTimeoutError):
            return errors.failed(ErrorKind.BROKEN_STREAM, _told(error), paid=True)
        if self.first_token_at is None:
            message = f"no token within {self.endpoint.first_token_s:g} s"
            return errors.failed(ErrorKind.TIMEOUT_START, message, paid=True)
        message = f"no piece of the answer for {self.endpoint.idle_s:g} s"
        return errors.failed(ErrorKind.TIMEOUT_IDLE, message, paid=True)

    def _done(self, reading: Reading, error: CallError | None = None) -> ModelAnswer:
        """The answer as read so far, with an error where it was cut off or states one."""
        if error is None and reading.error is not None:
            status = self.status or 200
            error = errors.classified(status, reading.error, self.advice, paid=True)
        end = finish.normal(reading.finish_reason, refused=reading.refused)
        if error is None and end in BROKEN_OFF:
            message = f"the server broke the answer off: finish reason {reading.finish_reason}"
            error = errors.failed(ErrorKind.BROKEN_STREAM, message, paid=True)
        return replace(
            self._failed(error),
            text=reading.text,
            reasoning=reading.reasoning,
            reasoning_field=reading.reasoning_field,
            finish_reason=reading.finish_reason,
            end=End.ERROR if error else end,
            provider_id=reading.provider_id,
            model=reading.model,
            fingerprint=reading.fingerprint,
            weight_version=reading.weight_version,
            usage=reading.usage,
            cost_usd=reading.cost_usd,
            prompt_token_ids=reading.prompt_token_ids,
            token_ids=reading.token_ids,
            logprobs=reading.logprobs,
            logprobs_mode=(
                self.endpoint.capabilities.get("logprobs_mode") if reading.logprobs else None
            ),
        )

    def _failed(self, error: CallError | None) -> ModelAnswer:
        """The frame of every answer: times, status, the body as sent."""
        return ModelAnswer(
            end=End.ERROR,
            error=error,
            request_id=self.request_id,
            sent_at=self.sent_at,
            first_token_at=self.first_token_at,
            last_at=self._now(),
            status=self.status,
            sent_body=self.body.data,
            body_sha256=hashlib.sha256(self.body.data).hexdigest(),
            template_sha256=self.endpoint.capabilities.get("template_sha256"),
            rate=self.advice.rate,
        )


def _whole_in(dialect: Dialect, head: bytes | bytearray) -> Reading | None:
    """The whole body that a server sent in place of events; None where there is none."""
    if not head.lstrip().startswith(b"{"):
        return None
    try:
        return dialect.read(decoded(bytes(head)))
    except MalformedAnswerError:
        return None


def _stated(data: bytes) -> StatedError:
    """The error in the body of a refusal: OpenAI's `error`, FastAPI's `detail`, or its text."""
    try:
        body = decoded(data)
    except MalformedAnswerError:
        return StatedError(message=" ".join(data[:LONGEST_TEXT].decode("utf-8", "replace").split()))
    found = stated_error(body.get("error") or body.get("detail"))
    return found or stated_error(dict(body)) or StatedError(message="")


def _is_refused_certificate(error: HTTPError) -> bool:
    return any(
        isinstance(each, ssl.SSLCertVerificationError) for each in (error.__cause__, *error.args)
    )


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
