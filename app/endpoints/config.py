"""COLLECT: checks of an endpoint before it is stored."""

from __future__ import annotations

import json
import math
import re
from urllib.parse import urlsplit

from app.domain import freeform
from app.domain.collection.call import EndpointConfig
from app.domain.request import RequestError
from app.endpoints import dialects
from app.endpoints.dialects.base import RESERVED

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
"""It is part of a queue's name."""
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
SECRET_HEADERS = frozenset(
    {"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"}
)
_POSITIVE = ("max_in_flight", "connect_s", "first_token_s", "idle_s")
_OPTIONAL = ("requests_per_minute", "tokens_per_minute", "context_tokens", "max_output_tokens")


def check(config: EndpointConfig) -> None:
    """Raise RequestError for the first field that cannot be, before anything is stored or spent."""
    if not NAME.fullmatch(config.name):
        raise RequestError(
            f"name: expected small letters, digits, '_' and '-', got {config.name!r}"
        )
    dialects.find(config.dialect)
    _check_url(config.base_url)
    if not config.model.strip():
        raise RequestError("model: expected its name as the server knows it, got nothing")
    if config.key_env is not None and not VARIABLE.fullmatch(config.key_env):
        raise RequestError(
            "key_env: expected the name of an environment variable (the key itself is not stored)"
        )
    if secret := sorted(SECRET_HEADERS & {name.lower() for name in config.headers}):
        raise RequestError(
            f"headers: {secret[0]} may hold a secret: name the key's variable with key_env instead"
        )
    for name, value in config.headers.items():
        if not _HEADER.fullmatch(name) or not (value.isascii() and value.isprintable()):
            raise RequestError(
                f"headers: expected a name and a value of printable ASCII characters, got {name!r}"
            )
    for name in (*_POSITIVE, *_OPTIONAL):
        value = getattr(config, name)
        if value is not None and not 0 < value < math.inf:
            raise RequestError(f"{name}: expected a finite number above 0, got {value!r}")
    for name, price in vars(config.prices).items():
        if price is not None and not 0 <= price < math.inf:  # every budget would admit NaN
            raise RequestError(
                f"price of {name}: expected a finite number from 0 on, got {price!r}"
            )
    _check_extra(config)


def _check_url(base_url: str) -> None:
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError as error:
        raise RequestError(f"base_url: expected http(s)://host[:port]/v1: {error}") from error
    if parts.scheme not in ("http", "https"):
        raise RequestError(
            "base_url: expected http(s)://host[:port]/v1: it begins with neither http:// nor"
            " https://"
        )
    if not parts.hostname:
        raise RequestError("base_url: expected http(s)://host[:port]/v1: it names no host")
    if parts.username or parts.password or parts.query:
        raise RequestError(
            "base_url: expected no user, password or query in it: name the key's variable with"
            " key_env"
        )


def _check_extra(config: EndpointConfig) -> None:
    if taken := sorted(RESERVED & set(config.extra)):
        raise RequestError(
            f"extra: expected parameters without a field of their own, got {', '.join(taken)}"
        )
    freeform.check(config.extra, "extra")
    json.dumps(dict(config.extra), allow_nan=False)
