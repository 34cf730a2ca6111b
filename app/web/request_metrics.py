"""BROWSE: metrics of HTTP requests, as this process has counted them since its start.  Where
several web processes serve, each has its own: Prometheus scrapes all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import flask
import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from werkzeug.wsgi import ClosingIterator

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)
"""Upper bounds of the buckets, in seconds: pages answer within the first, requests
that wait for a job in the last.
"""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"
"""Label of methods outside METHODS: a client may send any word, and each would be a
series of its own.
"""
UNMATCHED = "none"
"""Label of requests for which there is no route."""
_KEY = "assay.request_metrics"

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each one


@dataclass
class _Request:
    """One request in flight."""

    method: str
    route: str = UNMATCHED
    status: str = "500"
    """That of the answer; 500 where the application raised before it had one."""


class RequestMetrics:
    """Counters of one application."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._answers = Counter(
            "assay_http_requests",
            "Requests that ended, by route, method and status.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "assay_http_request_seconds",
            "Time from a request's header to the header of its answer; requests that wait for a job"
            " wait in it.",
            ("route", "method"),
            buckets=BOUNDS_S,
            registry=self._registry,
        )
        self._in_flight = Gauge(
            "assay_http_requests_in_flight",
            "Requests whose answers are not sent whole, streams and requests that wait for a job"
            " included.",
            registry=self._registry,
        )
        self._refused = Counter(
            "assay_http_refused_connections",
            "Requests and connections that were refused before the application saw them, by"
            " status.",
            ("status",),
            registry=self._registry,
        )

    def collect(self) -> Iterator[Metric]:
        """Every metric family."""
        yield from self._registry.collect()

    def refused(self, status: str) -> None:
        """Count a request that the server refused by itself."""
        self._refused.labels(status).inc()

    def counted(self, application: WSGIApplication) -> WSGIApplication:
        """The application with its requests counted."""

        def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            method = environ.get("REQUEST_METHOD", "")
            request = _Request(method=method if method in METHODS else OTHER)
            environ[_KEY] = request
            begun = time.monotonic()

            def started(
                status: str, headers: list[tuple[str, str]], *rest: Any
            ) -> Callable[[bytes], object]:
                request.status = status[:3]
                self._seconds.labels(request.route, request.method).observe(
                    time.monotonic() - begun
                )
                return start_response(status, headers, *rest)

            self._in_flight.inc()
            try:
                body = application(environ, started)
            except BaseException:
                self._ended(request)
                raise
            return ClosingIterator(body, lambda: self._ended(request))

        return serve

    def _ended(self, request: _Request) -> None:
        self._in_flight.dec()
        self._answers.labels(request.route, request.method, request.status).inc()


def install(app: flask.Flask) -> RequestMetrics:
    """Count the application's requests.  To be called before other hooks are
    registered: those may end a request.
    """
    metrics = RequestMetrics()
    app.wsgi_app = metrics.counted(app.wsgi_app)  # type: ignore[method-assign, assignment]
    app.before_request(_note_route)
    return metrics


def _note_route() -> None:
    request: _Request | None = flask.request.environ.get(_KEY)
    if request is not None and flask.request.url_rule is not None:
        request.route = flask.request.url_rule.rule
