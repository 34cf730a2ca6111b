"""COLLECT: connections to chat servers, and the time that one read may take."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import urllib3

CONNECTIONS = 1000
"""Idle connections kept for one server."""
PIECE_BYTES = 64 << 10
"""Most bytes read of an answer at once."""


@cache
def pool() -> urllib3.PoolManager:
    """The connections of this process.  A retry is the caller's decision, so none is made here."""
    return urllib3.PoolManager(num_pools=50, maxsize=CONNECTIONS, retries=False)


def pieces(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """The body in pieces as they arrive."""
    while piece := response.read1(PIECE_BYTES):
        yield piece


def limit(response: urllib3.BaseHTTPResponse, timeout_s: float) -> None:
    """Set the longest wait for the next piece, in seconds.

    urllib3 has one read timeout for headers and body.  A response that ends with its connection
    holds the socket itself.  Where no socket is found, the timeout of the request stays in force.
    """
    connection: Any = response.connection
    raw = getattr(getattr(getattr(response, "_fp", None), "fp", None), "raw", None)
    socket: Any = getattr(connection, "sock", None) or getattr(raw, "_sock", None)
    if socket is not None:
        socket.settimeout(max(0.001, timeout_s))
