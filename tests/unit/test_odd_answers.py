"""Answers that are a little off the protocol: those that count, and those that are
errors with a name.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest

from app.domain.collection.call import ErrorKind, Retry
from app.endpoints import errors, headers
from app.endpoints.dialects import base
from app.endpoints.dialects.base import MalformedAnswerError, decoded
from app.endpoints.headers import Advice
from app.endpoints.sse import Decoder, Event
from tests.unit.dialects import chunk, read, streamed


def whole(message=None, **more):
    choice = {
        "index": 0,
        "message": message or {"content": "x"},
        "finish_reason": "stop",
        **more.pop("choice", {}),
    }
    return {"choices": [choice], **more}


def test_a_lone_surrogate_is_no_error():
    body = decoded(b'{"choices":[{"message":{"content":"\\ud83d hi"},"finish_reason":"stop"}]}')
    assert read("chat", body).text == "\ufffd hi"


@pytest.mark.parametrize("dialect", ["chat", "anthropic"])
def test_halves_of_a_character_in_two_events_are_joined(dialect):
    pieces = ["a\ud83d", "\ude00b"]
    if dialect == "chat":
        events = [
            *(json.dumps(chunk({"content": piece})) for piece in pieces),
            chunk(finish_reason="stop"),
        ]
    else:
        deltas = [
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": piece}}
            for piece in pieces
        ]
        events = [*map(json.dumps, deltas), {"type": "message_stop"}]
    assert streamed(dialect, *events).reading().text == "a\U0001f600b"


def test_a_body_that_is_no_json_is_quoted():
    with pytest.raises(MalformedAnswerError, match=r"<html>.*Bad gateway"):
        decoded(b"<html><body>\n502 Bad gateway</body></html>")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (50.0, 50),
        (0, 0),
        (2.5, None),
        (-1, None),
        (True, None),
        (10**30, None),
        (float("nan"), None),
        ("9", None),
    ],
)
def test_counts_are_whole_numbers_that_can_be(told, expected):
    usage = read("chat", whole(usage={"prompt_tokens": 1, "completion_tokens": told})).usage
    assert usage.output == expected
    assert usage.source == ("unknown" if expected is None else "reported")


@pytest.mark.parametrize("cost", [-1, 1e300, float("nan"), float("inf"), True, "3"])
def test_a_cost_that_cannot_be_is_none(cost):
    told = {"prompt_tokens": 1, "completion_tokens": 1, "cost": cost}
    assert read("openrouter", whole(usage=told)).cost_usd is None


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e300", "null", "true"])
def test_a_logprob_that_is_no_finite_number_is_an_error(value):
    logprobs = f'{{"content":[{{"token":"a","logprob":{value}}}]}}'
    text = f'{{"choices":[{{"message":{{"content":"x"}},"logprobs":{logprobs}}}]}}'
    with pytest.raises(MalformedAnswerError, match="logprob: expected a finite number"):
        read("vllm", decoded(text))


@pytest.mark.parametrize("ids", [[1 << 31], [-1], ["a"], [1.5]])
def test_token_ids_are_int32(ids):
    with pytest.raises(MalformedAnswerError, match="token ids"):
        read("vllm", whole(choice={"token_ids": ids}))


def test_a_choice_without_a_number_is_the_first():
    assert read("chat", whole(choice={"index": None})).text == "x"


@pytest.mark.parametrize(
    ("error", "kind", "retry"),
    [
        ({"message": "Provider returned error", "code": "429"}, ErrorKind.RATE_LIMITED, Retry.WAIT),
        ({"message": "slow down", "status": 429}, ErrorKind.RATE_LIMITED, Retry.WAIT),
        ({"message": "see your plan", "code": "insufficient_quota"}, ErrorKind.QUOTA, Retry.NEVER),
        (
            {"message": "too long", "code": "context_length_exceeded"},
            ErrorKind.CONTEXT_OVERFLOW,
            Retry.NEVER,
        ),
        ({"message": "no", "code": "content_filter"}, ErrorKind.CONTENT_POLICY, Retry.NEVER),
        (
            {"message": "Provider returned error", "code": "boom"},
            ErrorKind.SERVER_ERROR,
            Retry.AGAIN,
        ),
    ],
)
def test_errors_inside_a_200_are_classified_by_what_they_state(error, kind, retry):
    stated = base.stated_error(error)
    assert stated is not None
    found = errors.classified(200, stated, Advice())
    assert (found.kind, found.retry) == (kind, retry)


@pytest.mark.parametrize("scale", [1, 1000])
def test_a_reset_in_seconds_since_1970_is_a_time_of_day(scale):
    now = datetime(2026, 11, 24, tzinfo=UTC)
    then = str(int((now.timestamp() + 7) * scale))
    told = headers.read(
        {
            "Retry-After": then,
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": then,
        },
        now,
    )
    assert told.retry_after_s == pytest.approx(7)
    assert headers.wait_s(told.rate) == pytest.approx(7)


def test_a_long_event_in_small_pieces_takes_no_more_than_its_length():
    decoder, piece, found = Decoder(), b"x" * 4096, list[Event]()
    began = time.process_time()
    for part in (b"data: ", *[piece] * 3800, b"\n\n"):
        found += decoder.feed(part)
    assert [len(event.data) for event in found] == [3800 * 4096]
    assert time.process_time() - began < 2
