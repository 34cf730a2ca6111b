"""BROWSE: connections of the web server, and the limits of one.

A client that opens connections and says nothing, half a header, or a body byte by byte holds a
place among the server's; so each step has a time, and each address a share of the places.  An
ambiguous request (two lengths, a length beside a transfer coding; no host, or two) is refused: a
proxy in front might see other requests in it than this server does.

    accept       at most `per_address` connections of one address: more are told 503 and closed
    header       HEADER_S from its first byte, or from the connection's beginning, to its last
    keep-alive   IDLE_S between two requests: longer than the clients' own 15 to 30 s, so that it is
                 they who close
    body         BODY_S and a second more for every BODY_BYTES_PER_S bytes
    response     SEND_S for each piece that the client takes

It does not guard against many addresses at once, which is a proxy's or a firewall's to do.
"""

from __future__ import annotations

import errno
import io
import json
import logging
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from email import errors
from http import HTTPStatus
from http.client import HTTPException
from typing import Any

from gevent import pywsgi

HEADER_S = 10.0
IDLE_S = 75.0
BODY_S = 20.0
BODY_BYTES_PER_S = 256 << 10
SEND_S = 60.0
PER_ADDRESS = 2_000
"""A trainer with its rollouts on one host holds hundreds."""
DISCARDED_BYTES = 64 << 20
"""Limit on an unread body that is discarded, so that its sender gets to read the answer;
past it the connection is closed.
"""
REFUSAL_S = 1.0
"""Seconds for a refused connection to take its answer."""
RETRY_S = 5
"""Seconds after which to come back after a 503."""

_access = logging.getLogger("app.web.access")
_QUIET = ("/livez", "/healthz", "/static/")
"""Paths that are asked all the time and say nothing: not logged."""
_OF_BODIES = (
    errors.StartBoundaryNotFoundDefect,
    errors.MultipartInvariantViolationDefect,
    errors.NoBoundaryInMultipartDefect,
    errors.InvalidMultipartContentTransferEncodingDefect,
)
"""Faults that Python finds in every multipart request, as it reads the header of one
without its body.
"""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _refusal(status: int, kind: str, message: str, **headers: str) -> bytes:
    """An answer in the shape of app.web.errors, after which the connection ends."""
    body = json.dumps({"error": {"kind": kind, "message": message, "details": {}}}).encode()
    named = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **headers,
    }
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        *(f"{name}: {value}" for name, value in named.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


_TOO_MANY = _refusal(
    503,
    "too_many_connections",
    "too many connections of one address",
    **{"Retry-After": str(RETRY_S)},
)
_REFUSALS = {
    "400": _refusal(
        400, "bad_request", "expected an HTTP request whose header can be read in one way only"
    ),
    "408": _refusal(408, "request_timeout", f"expected the whole header within {HEADER_S:g} s"),
    "414": _refusal(
        414, "uri_too_long", f"expected a request line of at most {pywsgi.MAX_REQUEST_LINE} bytes"
    ),
}
"""Errors with which gevent refuses a request before the application sees it."""


class AmbiguousError(ValueError):
    """A request that two servers could read as two different ones."""


class _Timed(io.RawIOBase):
    """Bytes of a socket until a deadline that is moved from step to step (time.monotonic)."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.deadline = time.monotonic() + HEADER_S
        self.grows = False
        """True while a body of unknown length comes in: each piece of it
        gives the next one time.
        """

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the bytes that have arrived.  Raises TimeoutError after the deadline,
        where nothing has.
        """
        self._socket.settimeout(max(0.001, self.deadline - time.monotonic()))
        count = self._socket.recv_into(buffer)
        if self.grows:
            self.deadline += count / BODY_BYTES_PER_S
        return count


class _Input(pywsgi.Input):  # type: ignore[misc]
    """The body of a request.  `broken` once its end cannot be found any more."""

    broken = False
    timed: _Timed

    def read(self, length: int | None = None) -> bytes:
        try:
            data: bytes = super().read(length)
        except OSError:
            self.broken = True
            raise
        return data

    def readline(self, size: int | None = None) -> bytes:
        try:
            data: bytes = super().readline(size)
        except OSError:
            self.broken = True
            raise
        return data

    def _discard(self) -> None:
        """Read the rest that the application did not, up to DISCARDED_BYTES."""
        if (
            self.socket is not None
        ):  # the sender waits for a word before the body, and got the answer in its place
            self.broken = True
            return
        self.timed.deadline = min(self.timed.deadline, time.monotonic() + BODY_S)
        left = DISCARDED_BYTES
        try:
            while not self.broken and (data := self.read(min(left, 16 << 10))):
                left -= len(data)
                if left <= 0:
                    self.broken = True
        except OSError:
            self.broken = True


class Handler(pywsgi.WSGIHandler):  # type: ignore[misc]
    """One connection, request by request."""

    wsgi_input: Any
    path: str

    def __init__(self, sock: socket.socket, address: Any, server: Server) -> None:
        self._timed = _Timed(sock)
        super().__init__(sock, address, server, rfile=io.BufferedReader(self._timed))

    def handle_one_request(self) -> Any:
        """Same as gevent's, with errors that programs can read."""
        result = super().handle_one_request()
        if isinstance(result, tuple) and result[0] in _REFUSALS:
            self.server.refused(result[0])
            return result[0], _REFUSALS[result[0]]
        return result

    def read_requestline(self) -> str:
        """Its first byte may be long in coming where the connection was used before."""
        self._timed.grows = False
        if self.requestline is not None:
            self._timed.deadline = time.monotonic() + IDLE_S
            self.rfile.peek(1)
            self._timed.deadline = time.monotonic() + HEADER_S
        line: str = super().read_requestline()
        return line

    def MessageClass(self, *args: Any) -> Any:  # noqa: N802 (gevent's name)
        """The header.  Raises AmbiguousError."""
        try:
            headers = super().MessageClass(*args)
        except HTTPException as error:
            raise AmbiguousError(str(error)) from error
        hosts = headers.get_all("Host") or []
        _check_target(self.path, self.request_version, hosts)
        self.path = _origin_form(self.path, hosts)
        _check_framing(headers, self.request_version)
        return headers

    def get_environ(self) -> dict[str, Any]:
        """Same as gevent's, with a body that has a time."""
        environ: dict[str, Any] = super().get_environ()
        given = self.wsgi_input
        self.wsgi_input = _Input(
            given.rfile, given.content_length, given.socket, given.chunked_input
        )
        self.wsgi_input.timed = self._timed
        if environ["wsgi.input"] is given:
            environ["wsgi.input"] = self.wsgi_input
        announced = min(self.content_length or 0, DISCARDED_BYTES)  # a header may name any number
        self._timed.deadline = time.monotonic() + BODY_S + announced / BODY_BYTES_PER_S
        self._timed.grows = bool(given.chunked_input)
        return environ

    def handle_one_response(self) -> None:
        """Counted, so that a server that stops waits for it."""
        with self.server.busy:
            super().handle_one_response()
        if self.wsgi_input.broken:
            self.close_connection = True

    def finalize_headers(self) -> None:
        """A server that stops says that the connection ends."""
        if self.server.stopping:
            self.close_connection = True
            self.response_headers.append((b"Connection", b"close"))
        super().finalize_headers()

    def _sendall(self, data: bytes) -> None:
        self.socket.settimeout(SEND_S)
        try:
            super()._sendall(data)
        except TimeoutError as error:  # gevent is silent about connections that the client has left
            raise ConnectionResetError(
                errno.ECONNRESET, f"nothing was taken for {SEND_S:g} s"
            ) from error

    def _handle_client_error(self, ex: Exception) -> tuple[str, bytes]:
        if isinstance(ex, TimeoutError):
            return "408", b""
        if isinstance(ex, OSError):
            return "400", b""
        refused: tuple[str, bytes] = super()._handle_client_error(ex)
        return refused

    def log_request(self) -> None:
        """One line for each answer; in JSON with its parts as fields."""
        path = self.path or ""
        if path.startswith(_QUIET):
            return
        seconds = (self.time_finish or time.time()) - self.time_start
        status = (self._orig_status or str(self.status or "")).split(" ")[
            0
        ]  # a refused request has its number alone
        status = status if status.isdecimal() else "000"  # the connection ended before an answer
        asked = f"{self.command} {path}".encode("unicode_escape").decode()
        host = self.client_address[0] if isinstance(self.client_address, tuple) else "unix"
        fields = {
            "client": host,
            "method": self.command,
            "path": path.encode("unicode_escape").decode(),
            "status": int(status),
            "bytes": self.response_length or 0,
            "duration_s": round(seconds, 6),
        }
        told = (host, asked, status, self.response_length or 0, seconds)
        _access.info("%s %s %s %d B %.3f s", *told, extra={"fields": fields})


class Busy:
    """Number of requests that are being answered."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1


class Server(pywsgi.WSGIServer):  # type: ignore[misc]
    """gevent's, with a share of its places for each address (None: no limit, as behind a proxy)."""

    handler_class = Handler

    def __init__(
        self,
        *args: Any,
        refused: Callable[[str], None],
        per_address: int | None = PER_ADDRESS,
        **options: Any,
    ) -> None:
        """`refused`: called with the status of every request that is refused here."""
        super().__init__(*args, **options)
        self.refused = refused
        self.busy = Busy()
        self.stopping = False
        self._per_address = per_address
        self._held: Counter[str] = Counter()

    def handle(self, sock: socket.socket, address: Any) -> None:
        """Serve a connection, or refuse it."""
        host = str(address[0]) if isinstance(address, tuple) and address else "unix"
        if self._per_address is not None and self._held[host] >= self._per_address:
            self.refused("503")
            _refuse(sock)
            return
        self._held[host] += 1
        try:
            super().handle(sock, address)
        finally:
            self._held[host] -= 1
            if not self._held[host]:
                del self._held[host]


def _refuse(sock: socket.socket) -> None:
    """Answer with the error, and wait until it was read: a reset, from closing with
    bytes unread, would lose it.
    """
    sock.settimeout(REFUSAL_S)
    try:
        sock.sendall(_TOO_MANY)
        sock.shutdown(socket.SHUT_WR)
        until = time.monotonic() + REFUSAL_S
        while sock.recv(16 << 10) and time.monotonic() < until:
            pass
    except OSError:
        return


def _check_target(path: str, version: str | None, hosts: Sequence[str]) -> None:
    """Raise AmbiguousError unless the request names one host (RFC 9112 §3.2) and a
    target that is text.
    """
    if version not in ("HTTP/1.0", "HTTP/1.1"):
        raise AmbiguousError(f"expected HTTP/1.0 or HTTP/1.1, got {version}")
    if len(hosts) > 1 or (not hosts and version == "HTTP/1.1"):
        raise AmbiguousError(f"Host: expected one, got {', '.join(hosts) or 'none'}")
    try:
        path.encode("latin-1").decode()
    except UnicodeDecodeError as error:
        raise AmbiguousError(f"target: expected UTF-8, got {path!r}") from error


def _origin_form(target: str, hosts: Sequence[str]) -> str:
    """The path and query of a target that may be a whole URL, as sent to a proxy (RFC 9112 §3.2.2).
    Raises AmbiguousError where its host is another one than the header's.
    """
    if not target.lower().startswith(("http://", "https://")):
        return target
    authority, slash, rest = target.split("://", 1)[1].partition("/")
    authority, question, query = authority.partition("?")
    if [authority.lower()] != [each.lower() for each in hosts]:
        raise AmbiguousError(f"Host: expected {authority}, got {', '.join(hosts) or 'none'}")
    return f"/{question}{query}{slash}{rest}" if question else f"/{rest}"


def _check_framing(headers: Any, version: str | None) -> None:
    """Raise AmbiguousError where the end of the body could be read in two ways (RFC 9112 §6.3)."""
    if any(
        not isinstance(each, _OF_BODIES) for each in headers.defects
    ):  # lines below it were not read as headers
        raise AmbiguousError("expected lines of the form `name: value`")
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or "\n" in value or "\r" in value:
            raise AmbiguousError(f"header {name!r}: expected a token and one line")
    lengths = headers.get_all("Content-Length") or []
    codings = headers.get_all("Transfer-Encoding") or []
    if len(lengths) > 1 or not all(each.isascii() and each.isdigit() for each in lengths):
        raise AmbiguousError(f"Content-Length: expected one number, got {', '.join(lengths)}")
    if not codings:
        return
    if [each.strip().lower() for each in codings] != ["chunked"] or version != "HTTP/1.1":
        raise AmbiguousError(
            f"Transfer-Encoding: expected 'chunked' in HTTP/1.1, got {', '.join(codings)} in"
            f" {version}"
        )
    if lengths:
        raise AmbiguousError("expected one of Content-Length and Transfer-Encoding, got both")
