"""Calls over HTTP against the scripted server: answers, faults, and the records of them."""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo

import pytest
import urllib3

from app.domain.collection.call import End, EndpointConfig, ErrorKind, ModelRequest, Retry
from app.domain.request import RequestError
from app.domain.trajectory import Message
from app.endpoints import caller, finish
from app.endpoints.scripted import tokens
from app.endpoints.scripted.behaviour import Behaviour
from app.endpoints.scripted.process import running
from app.endpoints.scripted.script import Scene, Script

CODE = "```python\nclass ModelNew: ...\n# grüße\n```\n"
SCRIPT = Script(
    scenes=(
        Scene(
            match="problem one", turns=((CODE,), ("second a", "second b", "second c", "second d"))
        ),
        *(
            Scene(match=f"odd {name}", turns=((text,),))
            for name, text in (("empty", ""), ("nul", "a\0b"))
        ),
        Scene(match="odd huge", turns=(("y" * 9_000_000,),)),
    )
)
KEY = "sk-secret-12345"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running(SCRIPT, Behaviour(hang_s=5, chunk_characters=7, key=KEY)) as found:
        yield found


def endpoint(address: str, **fields) -> EndpointConfig:
    given = {
        "name": "e",
        "base_url": address,
        "dialect": "vllm",
        "model": "scripted",
        "idle_s": 2.0,
    }
    return EndpointConfig(**{**given, **fields})


def request(text: str = "problem one", **fields) -> ModelRequest:
    given = {
        "model": "scripted",
        "messages": (Message(role="user", content=text),),
        "max_tokens": 10_000_000,
    }
    return ModelRequest(**{**given, **fields})


@pytest.mark.parametrize("dialect", ["chat", "openai", "vllm", "sglang", "openrouter", "anthropic"])
@pytest.mark.parametrize("stream", [True, False])
def test_every_dialect_gets_the_text(address, dialect, stream):
    answer = caller.call(endpoint(address, dialect=dialect, stream=stream), request(), key=KEY)
    assert answer.error is None
    assert (answer.text, answer.end, answer.status) == (CODE, End.STOP, 200)
    assert answer.usage.output == len(CODE.encode())
    assert (answer.first_token_at is not None) == stream
    assert answer.sent_at <= answer.last_at


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
def test_token_ids_and_logprobs_are_the_servers_own(address, dialect):
    asked = request(want_token_ids=True, want_logprobs=True)
    answer = caller.call(endpoint(address, dialect=dialect), asked, key=KEY)
    expected = tokens.ids(CODE)
    assert list(answer.token_ids) == expected
    assert list(answer.logprobs) == tokens.logprobs(expected)
    if dialect == "vllm":
        assert list(answer.prompt_token_ids) == tokens.prompt_ids(
            [{"role": "user", "content": "problem one"}]
        )


def test_a_long_answer_ends_at_the_limit(address):
    answer = caller.call(endpoint(address), request(max_tokens=10), key=KEY)
    assert (answer.end, answer.finish_reason, answer.text) == (End.LENGTH, "length", CODE[:10])


@pytest.mark.parametrize(("name", "text"), [("empty", ""), ("nul", "a\0b")])
def test_odd_answers_are_answers(address, name, text):
    answer = caller.call(endpoint(address), request(f"odd {name}"), key=KEY)
    assert (answer.error, answer.text, answer.end) == (None, text, End.STOP)


def test_an_answer_without_end_is_cut():
    with running(SCRIPT, Behaviour(chunk_characters=1 << 20)) as address:
        answer = caller.call(endpoint(address), request("odd huge"))
    assert (answer.error, answer.end) == (None, End.LENGTH)
    assert answer.finish_reason == finish.CUT_BY_CLIENT
    assert caller.LONGEST_ANSWER < len(answer.text) < caller.LONGEST_ANSWER + (2 << 20)


@pytest.mark.parametrize(
    ("fault", "kind", "retry", "status"),
    [
        ("rate_limited", ErrorKind.RATE_LIMITED, Retry.WAIT, 429),
        ("server_error", ErrorKind.SERVER_ERROR, Retry.AGAIN, 500),
        ("overloaded", ErrorKind.OVERLOADED, Retry.WAIT, 503),
        ("broken_stream", ErrorKind.BROKEN_STREAM, Retry.AGAIN, 200),
        ("error_in_200", ErrorKind.SERVER_ERROR, Retry.AGAIN, 200),
        ("timeout", ErrorKind.TIMEOUT_START, Retry.AGAIN, None),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_faults_are_told_apart(address, fault, kind, retry, status, stream):
    at = endpoint(address, stream=stream, first_token_s=0.5, extra={"scripted_fault": fault})
    answer = caller.call(at, request(), key=KEY)
    assert (answer.end, answer.error.kind, answer.error.retry) == (End.ERROR, kind, retry)
    assert answer.status in (status, 200 if fault == "timeout" else status)
    assert (answer.error.retry_after_s == 0.05) == (retry is Retry.WAIT)
    assert answer.error.paid == (fault in ("broken_stream", "error_in_200", "timeout"))


def test_a_broken_stream_keeps_its_beginning(address):
    at = endpoint(address, extra={"scripted_fault": "broken_stream"})
    answer = caller.call(at, request(want_token_ids=True), key=KEY)
    assert answer.text
    assert CODE.startswith(answer.text)
    assert (answer.usage.source, answer.usage.output) == ("counted", len(answer.token_ids))


def test_the_key_is_nowhere_in_the_record(address):
    for key in (KEY, "sk-wrong-999"):
        answer = caller.call(endpoint(address, key_env="SOME_KEY"), request(), key=key)
        assert key not in repr(answer)
        assert (answer.error is None) == (key == KEY)
    assert answer.error.kind is ErrorKind.UNAUTHORISED


def test_a_key_comes_from_the_environment(monkeypatch):
    at = endpoint("http://h", key_env="ASSAY_TEST_MODEL_KEY")
    with pytest.raises(RequestError, match="ASSAY_TEST_MODEL_KEY"):
        caller.key_of(at)
    monkeypatch.setenv("ASSAY_TEST_MODEL_KEY", " abc\n")
    assert caller.key_of(at) == "abc"
    assert caller.key_of(replace(at, key_env=None)) is None


def test_the_record_is_what_was_sent(address):
    answer = caller.call(endpoint(address), request(seed=3, temperature=0.5), key=KEY)
    sent = json.loads(answer.sent_body)
    assert (sent["seed"], sent["temperature"], sent["model"]) == (3, 0.5, "scripted")
    assert answer.request_id.startswith("scripted-")


def test_no_server_is_an_error_of_the_connection():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answer = caller.call(endpoint(f"http://127.0.0.1:{port}/v1"), request())
    assert (answer.error.kind, answer.error.paid) == (ErrorKind.TIMEOUT_CONNECT, False)


def test_a_server_that_speaks_no_tls_was_asked_nothing():
    with raw(b"", pause_s=5) as address:
        answer = caller.call(endpoint(address.replace("http:", "https:"), connect_s=0.2), request())
    assert (answer.error.kind, answer.error.paid) == (ErrorKind.TIMEOUT_CONNECT, False)


def test_a_refused_certificate_is_so_for_every_call(monkeypatch):
    def refuse(*_, **__):
        cause = ssl.SSLCertVerificationError("self-signed certificate")
        raise urllib3.exceptions.SSLError(cause) from cause

    monkeypatch.setattr(urllib3.PoolManager, "urlopen", refuse)
    answer = caller.call(endpoint("https://model.test/v1"), request())
    assert (answer.error.kind, answer.error.retry, answer.error.paid) == (
        ErrorKind.NOT_FOUND,
        Retry.NEVER,
        False,
    )


@pytest.mark.parametrize("key", ["sk-one\nsk-two", "sk-\N{EURO SIGN}"])
def test_a_key_that_no_header_can_carry_is_not_repeated(monkeypatch, key):
    monkeypatch.setenv("A_KEY", key)
    with pytest.raises(
        RequestError, match="printable ASCII characters in the environment variable A_KEY"
    ) as told:
        caller.key_of(endpoint("http://h", key_env="A_KEY"))
    assert "sk-" not in str(told.value)


@contextmanager
def raw(reply: bytes, *more: bytes, pause_s: float = 0.0) -> Iterator[str]:
    """A server that sends these bytes to its first caller, whatever was asked."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        _read_request(connection)
        with suppress(OSError):  # the caller may be gone
            for part in (reply, *more):
                connection.sendall(part)
                over.wait(pause_s)
        connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        thread.join()
        listener.close()


def _read_request(connection: socket.socket) -> None:
    """Read a request of HTTP whole: a connection that is closed with unread bytes is
    reset, and its answer is lost.
    """
    data = connection.recv(1 << 20)
    while data.startswith(b"POST") and not _is_whole(data) and (more := connection.recv(1 << 20)):
        data += more


def _is_whole(request: bytes) -> bool:
    head, end, body = request.partition(b"\r\n\r\n")
    size = re.search(rb"(?i)content-length: *(\d+)", head)
    return bool(end) and len(body) >= int(size[1] if size else 0)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<html>ok>"], ErrorKind.BAD_ANSWER),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"], ErrorKind.BAD_ANSWER),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"], ErrorKind.BAD_ANSWER),
        (
            [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: [DONE]\n\n"],
            ErrorKind.BROKEN_STREAM,
        ),
        ([b"not http at all\r\n\r\n"], ErrorKind.BROKEN_STREAM),
        ([b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\n<h1>"], ErrorKind.OVERLOADED),
        ([b"HTTP/1.1 307 T\r\nLocation: /v2\r\nContent-Length: 0\r\n\r\n"], ErrorKind.NOT_FOUND),
        ([HEAD, EVENT], ErrorKind.BROKEN_STREAM),
        ([HEAD, EVENT, b"data: {broken\n\n"], ErrorKind.BAD_ANSWER),
        ([HEAD, b'data: {"error":{"message":"no","code":429}}\n\n'], ErrorKind.RATE_LIMITED),
    ],
)
def test_any_bytes_are_an_error_of_the_server(parts, kind):
    with raw(*parts) as address:
        answer = caller.call(endpoint(address, dialect="openrouter"), request())
    assert answer.error.kind is kind


def test_silence_after_the_first_token_is_an_idle_time_out():
    with raw(HEAD, EVENT, EVENT, pause_s=1.0) as address:
        answer = caller.call(endpoint(address, first_token_s=5, idle_s=0.3), request())
    assert (answer.error.kind, answer.text) == (ErrorKind.TIMEOUT_IDLE, "a")


def test_comments_do_not_count_as_a_first_token():
    comment = b": PROCESSING\n\n"
    with raw(HEAD, *[comment] * 20, pause_s=0.1) as address:
        answer = caller.call(endpoint(address, first_token_s=0.6), request())
    assert answer.error.kind is ErrorKind.TIMEOUT_START


def test_comments_do_not_count_between_two_pieces_either():
    comment = b": keep-alive\n\n"
    with raw(HEAD, EVENT, *[comment] * 20, pause_s=0.1) as address:
        answer = caller.call(endpoint(address, first_token_s=5, idle_s=0.6), request())
    assert (answer.error.kind, answer.text) == (ErrorKind.TIMEOUT_IDLE, "a")


def test_an_error_in_place_of_a_stream_keeps_its_message():
    with raw(HEAD, b'{"error": {"message": "model is loading", "code": 503}}') as address:
        answer = caller.call(endpoint(address), request())
    assert answer.error.kind is ErrorKind.OVERLOADED
    assert "model is loading" in answer.error.message


def test_a_stream_under_another_content_type_is_read():
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    with raw(HEAD.replace(b"text/event-stream", b"text/plain"), EVENT, EVENT, end) as address:
        answer = caller.call(endpoint(address), request())
    assert (answer.error, answer.text, answer.end) == (None, "aa", End.STOP)


@pytest.mark.parametrize("reason", ["abort", "cancelled", "error", "network_error"])
def test_an_answer_that_the_server_breaks_off_is_none_of_the_model(reason):
    """vLLM and SGLang end every answer so, in order to load new weights."""
    event = EVENT.replace(b"}}]", b'},"finish_reason":"' + reason.encode() + b'"}]')
    with raw(HEAD, event, b"data: [DONE]\n\n") as address:
        answer = caller.call(endpoint(address), request())
    assert (answer.error.kind, answer.error.retry) == (ErrorKind.BROKEN_STREAM, Retry.AGAIN)
    assert (answer.end, answer.text, answer.finish_reason) == (End.ERROR, "a", reason)


def test_faults_of_a_request_end_and_counts_tell(address):
    with running(SCRIPT, Behaviour(faults={"server_error": 1.0}, most_faults=2)) as flaky:
        answers = [caller.call(endpoint(flaky), request()) for _ in range(3)]
        stats = urllib3.request("GET", flaky.removesuffix("/v1") + "/stats").json()
    assert [answer.error is None for answer in answers] == [False, False, True]
    assert list(stats["asked"].values()) == [3]
    assert list(stats["answered"].values()) == [1]


def test_texts_depend_on_seed_and_messages_alone(address):
    messages = (Message(role="user", content="problem one"), Message(role="assistant", content="x"))
    texts = [
        caller.call(endpoint(address), request(messages=messages, seed=seed), key=KEY).text
        for seed in (1, 2, 3, 4, 5, 6, 1)
    ]
    assert texts[0] == texts[-1]
    assert len(set(texts)) > 1


class SetBack:
    """A wall clock that is set back by an hour whenever it is looked at."""

    looks = 0

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        cls.looks += 1
        return datetime.now(tz) - timedelta(hours=cls.looks)


def test_times_of_a_call_go_forward_while_the_clock_is_set_back(address, monkeypatch):
    monkeypatch.setattr(caller, "datetime", SetBack)
    answer = caller.call(endpoint(address), request(), key=KEY)
    assert (
        answer.sent_at
        < answer.first_token_at
        <= answer.last_at
        < answer.sent_at + timedelta(minutes=1)
    )
