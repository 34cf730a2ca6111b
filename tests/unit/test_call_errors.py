"""Classes of failed calls, by the servers' messages."""

import pytest

from app.domain.collection.call import EndpointConfig, ErrorKind, ModelAnswer, Prices, Retry, Usage
from app.endpoints import cost, errors
from app.endpoints.dialects.base import StatedError
from app.endpoints.headers import Advice

CASES = [
    (429, "rate_limit_exceeded", "Rate limit reached for gpt-5", "rate_limited", "wait"),
    (429, "insufficient_quota", "You exceeded your current quota", "quota", "never"),
    (402, "", "Insufficient credits", "quota", "never"),
    (401, "invalid_api_key", "Incorrect API key provided: sk-abc", "unauthorised", "never"),
    (403, "permission_error", "no access", "unauthorised", "never"),
    (404, "not_found_error", "model: claude-9", "not_found", "never"),
    (
        400,
        "context_length_exceeded",
        "This model's maximum context length is 8192",
        "context_overflow",
        "never",
    ),
    (
        400,
        "invalid_request_error",
        "prompt is too long: 210000 tokens > 200000",
        "context_overflow",
        "never",
    ),
    (
        400,
        "BadRequestError",
        "please reduce the length of the messages",
        "context_overflow",
        "never",
    ),
    (413, "request_too_large", "Request exceeds the maximum size", "context_overflow", "never"),
    (400, "content_policy_violation", "rejected by our safety system", "content_policy", "never"),
    (400, "invalid_request_error", "Your credit balance is too low", "quota", "never"),
    (400, "invalid_request_error", "temperature: Input should be <= 1", "bad_request", "never"),
    (422, "", "Extra inputs are not permitted", "bad_request", "never"),
    (408, "", "timeout", "server_error", "again"),
    (500, "api_error", "Internal server error", "server_error", "again"),
    (502, "", "bad gateway", "overloaded", "wait"),
    (504, "", "gateway timeout", "server_error", "again"),
    (521, "", "web server is down", "overloaded", "wait"),
    (503, "", "", "overloaded", "wait"),
    (529, "overloaded_error", "Overloaded", "overloaded", "wait"),
    (200, "overloaded_error", "Overloaded", "overloaded", "wait"),
    (200, "rate_limit_error", "slow", "rate_limited", "wait"),
    (200, "", "something broke", "server_error", "again"),
    (302, "", "redirect", "not_found", "never"),
]


@pytest.mark.parametrize(("status", "kind", "message", "expected", "retry"), CASES)
def test_errors_are_classified(status, kind, message, expected, retry):
    found = errors.classified(status, StatedError(message=message, kind=kind), Advice())
    assert (found.kind, found.retry) == (expected, retry)


def test_the_status_inside_a_200_counts():
    found = errors.classified(
        200, StatedError(message="limit", status=429), Advice(retry_after_s=3)
    )
    assert (found.kind, found.retry_after_s) == (ErrorKind.RATE_LIMITED, 3)


def test_moderation_of_openrouter_is_a_policy():
    found = errors.classified(403, StatedError(message="flagged", moderated=True), Advice())
    assert found.kind is ErrorKind.CONTENT_POLICY


def test_a_402_with_a_pause_is_a_limit():
    found = errors.classified(402, StatedError(message="in-flight budget"), Advice(retry_after_s=1))
    assert (found.kind, found.retry) == (ErrorKind.RATE_LIMITED, Retry.WAIT)


def test_a_server_can_forbid_another_try():
    stated = StatedError(message="x")
    assert errors.classified(500, stated, Advice(should_retry=False)).retry is Retry.NEVER


def test_keys_are_struck_out_of_messages():
    error = errors.classified(401, StatedError(message="bad key sk-12345"), Advice())
    assert "sk-12345" not in errors.without("sk-12345", error).message
    assert errors.without(None, error) == error


@pytest.mark.parametrize(
    ("usage", "prices", "expected"),
    [
        (Usage(input=1_000_000, output=500_000), Prices(input=2, output=8), 6.0),
        (
            Usage(input=1_000_000, cached_input=400_000, output=0),
            Prices(input=2, cached_input=0.5, output=8),
            1.4,
        ),
        (Usage(input=1_000_000, cached_input=400_000, output=0), Prices(input=2, output=8), 2.0),
        (Usage(input=None, output=3), Prices(input=2, output=8), None),
        (Usage(input=1, output=3), Prices(input=2), None),
    ],
)
def test_calls_are_priced(usage, prices, expected):
    endpoint = EndpointConfig(name="e", base_url="u", dialect="chat", model="m", prices=prices)
    answer = cost.priced(ModelAnswer(usage=usage), endpoint)
    assert answer.cost_usd == (pytest.approx(expected) if expected is not None else None)
    assert answer.cost_source == ("unknown" if expected is None else "priced")


def test_a_reported_cost_counts_more_than_a_price():
    endpoint = EndpointConfig(
        name="e", base_url="u", dialect="chat", model="m", prices=Prices(input=1, output=1)
    )
    answer = cost.priced(ModelAnswer(cost_usd=0.5, usage=Usage(input=1, output=1)), endpoint)
    assert (answer.cost_usd, answer.cost_source) == (0.5, "reported")
