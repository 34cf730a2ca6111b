"""Server-sent events, however their bytes are cut, and the limits in headers."""

import itertools
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.endpoints import headers, sse
from app.endpoints.sse import Decoder, Event, MalformedStreamError

STREAM = (
    b": OPENROUTER PROCESSING\n\n"
    b'data: {"a": 1}\n\n'
    b"event: message_start\r\ndata: one\r\ndata: two\r\n\r\n"
    b"id: 7\nretry: 3\n\n"
    b"data:[DONE]\n\n"
    b"data: without an end"
)
EVENTS = [
    Event(data='{"a": 1}'),
    Event(data="one\ntwo", name="message_start"),
    Event(data="[DONE]"),
]
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def feed(*chunks: bytes) -> list[Event]:
    decoder = Decoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


@given(st.lists(st.integers(0, len(STREAM))))
def test_events_do_not_depend_on_how_the_stream_is_cut(cuts):
    edges = [0, *sorted(cuts), len(STREAM)]
    assert feed(*(STREAM[a:b] for a, b in itertools.pairwise(edges))) == EVENTS


@given(st.binary(max_size=300))
def test_any_bytes_are_read(data):
    assert all(isinstance(event.data, str) for event in feed(data, data))


@given(st.integers(0, 3))
def test_a_byte_order_mark_may_begin_a_stream(at):
    marked = b"\xef\xbb\xbf" + STREAM
    assert feed(marked[:at], marked[at:]) == EVENTS


def test_an_event_without_an_end_is_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr(sse, "LONGEST_EVENT_BYTES", 1000)
    with pytest.raises(MalformedStreamError, match="at most 1000"):
        feed(b"data: " + b"x" * 2000)
    with pytest.raises(MalformedStreamError):
        feed(*[b"data: " + b"x" * 200 + b"\n"] * 6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.5", 1.5),
        ("6m0s", 360.0),
        ("12ms", 0.012),
        ("1h2m3.5s", 3723.5),
        ("2026-11-23T12:00:30Z", 30.0),
        ("Mon, 23 Nov 2026 12:01:00 GMT", 60.0),
        ("2020-01-01T00:00:00Z", 0.0),
        ("-1", None),
        ("nan", None),
        ("soon", None),
        ("", None),
    ],
)
def test_spans_and_dates_become_seconds(text, expected):
    assert headers.seconds(text, NOW) == expected


def test_limits_of_openai_are_read():
    told = {
        "x-ratelimit-limit-requests": "500",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1m12s",
        "X-RateLimit-Remaining-Tokens": "149984",
        "retry-after-ms": "2500",
        "retry-after": "9",
        "x-should-retry": "false",
        "x-request-id": "req_1",
    }
    found = headers.read(told, NOW)
    assert found.rate.remaining_requests == 0
    assert found.rate.remaining_tokens == 149_984
    assert (found.retry_after_s, found.should_retry) == (2.5, False)
    assert headers.wait_s(found.rate) == 72.0
    assert headers.request_id(told) == "req_1"


def test_the_tightest_bucket_of_anthropic_counts():
    told = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-input-tokens-remaining": "30000",
        "anthropic-ratelimit-output-tokens-remaining": "0",
        "anthropic-ratelimit-output-tokens-reset": "2026-11-23T12:00:07Z",
    }
    rate = headers.read(told, NOW).rate
    assert (rate.remaining_tokens, rate.reset_tokens_s) == (0, 7.0)
    assert headers.wait_s(rate) == 7.0


@given(
    st.dictionaries(
        st.sampled_from(["retry-after", "x-ratelimit-remaining-tokens", "a"]), st.text()
    )
)
def test_malformed_headers_are_ignored(told):
    assert headers.wait_s(headers.read(told, NOW).rate) >= 0
