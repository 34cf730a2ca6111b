"""Metrics of HTTP requests: by route, never by the words of a client, and balanced
however a request ends.
"""

from __future__ import annotations

import flask
import pytest

from app.web import request_metrics
from app.web.request_metrics import RequestMetrics

SECONDS = "assay_http_request_seconds_count"


class Site:
    """An application with some routes, and its metrics."""

    def __init__(self) -> None:
        self.app = flask.Flask(__name__)
        self.metrics: RequestMetrics = request_metrics.install(self.app)
        self.app.before_request(refuse)
        self.app.add_url_rule("/jobs/<name>", view_func=job, methods=["GET", "POST"])
        self.app.add_url_rule("/stream", view_func=stream)
        self.app.add_url_rule("/broken", view_func=broken)
        self.client = self.app.test_client()

    def ask(self, path: str, method: str = "GET") -> None:
        """Send a request and read its answer to the end."""
        self.client.open(path, method=method, buffered=True)

    def samples(self) -> dict[str, float]:
        """Value by name and labels, without buckets."""
        samples = (sample for family in self.metrics.collect() for sample in family.samples)
        return {
            " ".join([each.name, *each.labels.values()]): each.value
            for each in samples
            if "le" not in each.labels
        }


def refuse() -> flask.Response | None:
    return flask.Response(status=401) if "refused" in flask.request.args else None


def job(name: str) -> str:
    return name


def stream() -> flask.Response:
    return flask.Response(iter([b"a", b"b"]))


def broken() -> str:
    raise ValueError("no answer")


@pytest.fixture
def site() -> Site:
    return Site()


def test_requests_are_counted_by_route_and_not_by_path(site: Site) -> None:
    for name in ("a", "b", "c"):
        site.ask(f"/jobs/{name}")
    site.ask("/jobs/a", "POST")
    found = site.samples()
    assert found["assay_http_requests_total /jobs/<name> GET 200"] == 3
    assert found["assay_http_requests_total /jobs/<name> POST 200"] == 1
    assert found[f"{SECONDS} /jobs/<name> GET"] == 3
    assert found["assay_http_requests_in_flight"] == 0


def test_requests_without_a_route_are_one_series(site: Site) -> None:
    for number in range(3):
        site.ask(f"/{number}")
        site.ask("/jobs/a", f"WORD{number}")
    found = site.samples()
    assert found["assay_http_requests_total none GET 404"] == 3
    assert found["assay_http_requests_total none other 405"] == 3
    assert len([name for name in found if name.startswith("assay_http_requests_total")]) == 2


def test_a_request_that_another_hook_ends_has_its_route(site: Site) -> None:
    site.ask("/jobs/a?refused")
    assert site.samples()["assay_http_requests_total /jobs/<name> GET 401"] == 1


def test_a_view_that_raises_is_a_500(site: Site) -> None:
    site.ask("/broken")
    found = site.samples()
    assert found["assay_http_requests_total /broken GET 500"] == 1
    assert found["assay_http_requests_in_flight"] == 0


def test_a_stream_is_in_flight_until_it_is_closed(site: Site) -> None:
    answer = site.client.get("/stream")
    assert site.samples()["assay_http_requests_in_flight"] == 1
    answer.close()
    found = site.samples()
    assert found["assay_http_requests_in_flight"] == 0
    assert found["assay_http_requests_total /stream GET 200"] == 1


def test_an_application_that_raises_leaves_nothing_in_flight(site: Site) -> None:
    site.app.testing = True  # exceptions reach the server
    with pytest.raises(ValueError, match="no answer"):
        site.ask("/broken")
    found = site.samples()
    assert found["assay_http_requests_in_flight"] == 0
    assert found["assay_http_requests_total /broken GET 500"] == 1


def test_refused_connections_are_counted_apart(site: Site) -> None:
    site.metrics.refused("408")
    assert site.samples()["assay_http_refused_connections_total 408"] == 1
