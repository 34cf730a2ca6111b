"""Query parameters: every view names those that it reads, and others are refused."""

from __future__ import annotations

import flask
import pytest
from flask.testing import FlaskClient

from app.settings import Settings
from app.web import create_app, query_parameters
from app.web.query_parameters import checks_parameters, reads

CHECKED_BY_VIEW = {
    "evaluations.index",  # leads to the list of candidates with the same query
    "health.check",
    "health.live",
    *(
        f"{name}.service.{view}"
        for name in ("kernelgym", "kernelgym_prefixed")
        for view in ("register", "heartbeat", "unregister", "evict", "allocate")
    ),
}
"""Views that take any parameters, but for the operations of the API, which have a rule of their
own."""


@pytest.fixture
def client() -> FlaskClient:
    app = flask.Flask(__name__)
    query_parameters.install(app)

    @app.get("/plain")
    def plain() -> str:
        return "shown"

    @app.get("/list")
    @reads("name", lists=("columns",))
    def listed() -> str:
        return "shown"

    @app.get("/any")
    @checks_parameters
    def anything() -> str:
        return "shown"

    return app.test_client()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/plain?sort=name", "unknown parameter 'sort'; expected none"),
        ("/list?nmae=a", "unknown parameter 'nmae'; expected one of name, columns"),
        ("/list?name=a&name=b", "name: expected it once, got it 2 times"),
    ],
)
def test_what_a_view_does_not_read_is_refused(
    client: FlaskClient, path: str, expected: str
) -> None:
    answer = client.get(path)
    assert answer.status_code == 400
    assert expected in answer.get_data(as_text=True).replace("&#39;", "'")


@pytest.mark.parametrize("path", ["/plain", "/list?name=a&columns=a&columns=b", "/any?a=1&a=2"])
def test_what_a_view_reads_is_taken(client: FlaskClient, path: str) -> None:
    assert client.get(path).status_code == 200


def test_few_views_take_any_parameters() -> None:
    app = create_app(Settings(database_url="postgresql+psycopg://nobody@127.0.0.1:1/none"))
    found = {
        name
        for name, view in app.view_functions.items()
        if query_parameters.of(view).are_checked_by_view
    }
    assert {name for name in found if not name.startswith("api.")} == CHECKED_BY_VIEW
