"""Endpoints that cannot be: each is named before anything is stored."""

from __future__ import annotations

import math

import pytest

from app.domain.collection.call import EndpointConfig, Prices
from app.domain.request import RequestError
from app.endpoints import config


def endpoint(**fields) -> EndpointConfig:
    given = {"name": "e", "base_url": "http://h:8000/v1", "dialect": "chat", "model": "m"}
    return EndpointConfig(**{**given, **fields})


def test_usual_ones_pass():
    config.check(
        endpoint(headers={"HTTP-Referer": "https://example.org", "X-Title": "kernels, all of them"})
    )
    config.check(endpoint(base_url="https://[::1]:8000/v1"))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"base_url": "http://[::1/v1"}, "base_url"),
        ({"base_url": "http://h:99999/v1"}, "base_url"),
        ({"base_url": "http://h:port/v1"}, "base_url"),
        ({"base_url": "ftp://h/v1"}, "base_url: .* neither http:// nor https://"),
        ({"base_url": "foo"}, "base_url: .* neither http:// nor https://"),
        ({"base_url": "http:///v1"}, "base_url: .* names no host"),
        ({"headers": {"X-A": "a\r\nX-B: b"}}, "headers"),
        ({"headers": {"X-A": "\N{EURO SIGN}"}}, "headers"),
        ({"headers": {"X A": "a"}}, "headers"),
        ({"headers": {"": "a"}}, "headers"),
        ({"headers": {"Authorization": "Bearer sk-1"}}, "headers: authorization"),
        ({"prices": Prices(output=math.nan)}, "price of output: .* got nan"),
        ({"prices": Prices(input=math.inf)}, "price of input: .* got inf"),
        ({"prices": Prices(input=-1.0)}, "price of input: .* got -1.0"),
        ({"idle_s": math.nan}, "idle_s: .* got nan"),
    ],
)
def test_a_field_that_no_request_can_have_is_named(fields, named):
    with pytest.raises(RequestError, match=f"^{named}"):
        config.check(endpoint(**fields))
