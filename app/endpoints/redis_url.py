"""COLLECT: a Redis client out of the broker's URL, which may name a Unix socket in Kombu's way."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import redis

TIMEOUT_S = 5.0
"""Seconds to connect, and for an answer."""
_SOCKETS = ("redis+socket", "unix")


def client(broker_url: str) -> redis.Redis:
    """A client that answers in text."""
    parts = urlsplit(broker_url)
    options: dict[str, Any] = {
        "decode_responses": True,
        "socket_timeout": TIMEOUT_S,
        "socket_connect_timeout": TIMEOUT_S,
    }
    if parts.scheme not in _SOCKETS:
        found: redis.Redis = redis.Redis.from_url(broker_url, **options)
        return found
    told = parse_qs(parts.query)
    database = told.get("virtual_host", told.get("db", ["0"]))[0]
    password = told.get("password", [parts.password])[0]
    return redis.Redis(
        unix_socket_path=unquote(parts.path), db=int(database or 0), password=password, **options
    )
