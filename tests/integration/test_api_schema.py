"""Requests that are made up from the OpenAPI document: whatever comes, the server has no fault.

Needs the group `api` (schemathesis); skipped without it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import fresh
from hypothesis import HealthCheck, settings
from werkzeug.serving import make_server

from app.embedded import Services
from app.web import create_app
from app.web.api import document, exports

schemathesis = pytest.importorskip("schemathesis")
checks = pytest.importorskip("schemathesis.checks")

EXAMPLES = 15


schema = schemathesis.openapi.from_dict(document.document())


@pytest.fixture(scope="module")
def url(services: Services) -> Iterator[str]:
    with fresh(services) as own:
        app = create_app(own)
        server = make_server("127.0.0.1", 0, app, threaded=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
        server.server_close()
        parts = app.extensions["assay"]
        parts["watch"].close()
        parts["intake"].broker.close()
        parts["database"].dispose()


@schema.parametrize()
@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)
def test_no_server_error(case: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports.jobs, "_spawn", lambda *_: None)  # no process for each of them
    if isinstance(case.query, dict):
        case.query.pop("wait", None)
    if isinstance(case.body, dict):
        case.body = {**case.body, **{name: 0 for name in ("wait", "deadline_s") if name in case.body}}
        case.body |= {"deadline_s": 0} if case.path == "/v1/reward" else {}
    response = case.call(base_url=url)
    late = case.path == "/v1/reward" and response.status_code == 504  # as it must be: nobody evaluates here
    conforming = [checks.status_code_conformance, checks.content_type_conformance, checks.response_schema_conformance]
    case.validate_response(response, checks=conforming if late else [checks.not_a_server_error, *conforming])
