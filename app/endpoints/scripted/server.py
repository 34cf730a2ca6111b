"""COLLECT: the scripted server itself: a WSGI application under gevent."""

from __future__ import annotations

import errno
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import gevent
from gevent.lock import BoundedSemaphore

from app.endpoints.scripted import wire
from app.endpoints.scripted.behaviour import Behaviour
from app.endpoints.scripted.script import Script

CONTEXT_TOKENS = 131_072
Start = Callable[[str, list[tuple[str, str]]], object]
_JSON = ("Content-Type", "application/json")


class Server:
    """The application, and counts of its requests."""

    def __init__(self, script: Script, behaviour: Behaviour) -> None:
        self._script = script
        self._behaviour = behaviour
        self._asked: Counter[str] = Counter()
        self._answered: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._in_flight = 0
        self._most_in_flight = 0
        self._places = BoundedSemaphore(behaviour.capacity) if behaviour.capacity else None

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        """One request."""
        path = environ["PATH_INFO"].rstrip("/")
        if environ["REQUEST_METHOD"] == "GET":
            return self._get(path, start)
        if path not in ("/v1/chat/completions", "/v1/messages"):
            return _refuse(start, "404 Not Found", "no such path", "not_found_error", 404)
        if self._behaviour.key and self._behaviour.key not in _keys(environ):
            return _refuse(start, "401 Unauthorized", "wrong key", "authentication_error", 401)
        try:
            body = json.loads(environ["wsgi.input"].read())
            messages = [
                {"role": one["role"], "content": one["content"]} for one in body["messages"]
            ]
        except (ValueError, TypeError, KeyError) as error:
            message = f"expected messages with role and content: {error!r}"
            return _refuse(start, "400 Bad Request", message, "invalid_request_error", 400)
        return self._post(path, {**body, "messages": messages}, start)

    def _get(self, path: str, start: Start) -> Iterable[bytes]:
        known: Mapping[str, Any] = {
            "/health": {},
            "/version": {"version": "scripted"},
            "/v1/models": {
                "object": "list",
                "data": [{"id": wire.DEFAULT_MODEL, "max_model_len": CONTEXT_TOKENS}],
            },
            "/stats": self._stats(),
        }
        if path not in known:
            return _refuse(start, "404 Not Found", "no such path", "not_found_error", 404)
        start("200 OK", [_JSON])
        return [json.dumps(known[path]).encode()]

    def _stats(self) -> dict[str, Any]:
        """Counts by request, without the try's own id, and the most requests at a time."""
        return {
            "asked": dict(self._asked),
            "answered": dict(self._answered),
            "faults": dict(self._faults),
            "most_in_flight": self._most_in_flight,
        }

    def _post(self, path: str, body: dict[str, Any], start: Start) -> Iterable[bytes]:
        digest = _digest(body)
        seen = self._asked[digest]
        self._asked[digest] += 1
        limit = self._behaviour.refuse_beyond
        fault = body.get("scripted_fault") or self._behaviour.fault(digest, seen)
        if limit is not None and self._in_flight >= limit:
            fault = "rate_limited"
        if fault:
            self._faults[fault] += 1
        self._in_flight += 1
        self._most_in_flight = max(self._most_in_flight, self._in_flight)
        refusal = _REFUSALS.get(fault or "")
        if refusal is not None:
            self._in_flight -= 1
            seconds = f"{self._behaviour.retry_after_s:g}"
            asked = [("Retry-After", seconds)] if fault != "server_error" else []
            return _refuse(start, *refusal, headers=asked)
        seed = body.get("seed") if self._behaviour.honours_seed else seen
        reply = wire.Reply(
            text=self._script.answer(body["messages"], seed),
            body=body,
            digest=digest,
            chunk_characters=self._behaviour.chunk_characters,
        )
        streamed = bool(body.get("stream"))
        kind = "text/event-stream" if streamed else "application/json"
        start(
            "200 OK", [("Content-Type", kind), ("X-Request-Id", f"scripted-{digest[:12]}-{seen}")]
        )
        return self._written(path, reply, fault, streamed=streamed)

    def _written(
        self, path: str, reply: wire.Reply, fault: str | None, *, streamed: bool
    ) -> Iterator[bytes]:
        """The answer at the server's pace, or its beginning and the fault."""
        try:
            if self._places is None:
                yield from self._paced(path, reply, fault, streamed=streamed)
            else:
                with self._places:
                    yield from self._paced(path, reply, fault, streamed=streamed)
        finally:
            self._in_flight -= 1

    def _paced(
        self, path: str, reply: wire.Reply, fault: str | None, *, streamed: bool
    ) -> Iterator[bytes]:
        gevent.sleep(self._behaviour.first_token_s)
        if fault == "timeout":
            gevent.sleep(self._behaviour.hang_s)
            raise ConnectionResetError(errno.ECONNRESET, "the silence is over")
        if fault == "error_in_200":
            failure = wire.error("the provider failed", "server_error", 502)
            yield b"data: " + failure + b"\n\n" if streamed else failure
            return
        pieces = list(_pieces(path, reply, streamed=streamed))
        if fault == "broken_stream":
            yield from (
                pieces[: len(pieces) // 2] if streamed else [pieces[0][: len(pieces[0]) // 2]]
            )
            raise ConnectionResetError(errno.ECONNRESET, "a broken stream was asked for")
        for piece in pieces:
            yield piece
            gevent.sleep(self._behaviour.token_s)
        self._answered[reply.digest] += 1


def _pieces(path: str, reply: wire.Reply, *, streamed: bool) -> Iterator[bytes]:
    if path == "/v1/messages":
        yield from wire.message_events(reply) if streamed else [wire.message(reply)]
    else:
        yield from wire.chunks(reply) if streamed else [wire.body(reply)]


def _digest(body: Mapping[str, Any]) -> str:
    """The request without the fields that differ between two tries of one call."""
    same = {name: value for name, value in body.items() if name not in ("rid", "request_id")}
    return hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()


def _keys(environ: Mapping[str, Any]) -> tuple[str, ...]:
    bearer = str(environ.get("HTTP_AUTHORIZATION", "")).removeprefix("Bearer ")
    return bearer, str(environ.get("HTTP_X_API_KEY", ""))


def _refuse(
    start: Start,
    status: str,
    message: str,
    kind: str,
    code: int,
    headers: Iterable[tuple[str, str]] = (),
) -> Iterable[bytes]:
    start(status, [_JSON, *headers])
    return [wire.error(message, kind, code)]


_REFUSALS = {
    "rate_limited": ("429 Too Many Requests", "slow down", "rate_limit_error", 429),
    "server_error": ("500 Internal Server Error", "the server failed", "server_error", 500),
    "overloaded": ("503 Service Unavailable", "overloaded", "overloaded_error", 503),
}
