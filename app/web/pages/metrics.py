"""BROWSE: metrics for Prometheus, which sends a token (`authorization: {credentials:
…}` in its configuration).
"""

from __future__ import annotations

import flask
from werkzeug.wrappers import Response

from app.store.figures import monitoring
from app.telemetry import metrics as prometheus
from app.web import request_context
from app.web.compat.kernelgym import monitoring as kernelgym
from app.web.identity import requires

blueprint = flask.Blueprint("metrics", __name__)


@blueprint.get("/metrics")
@requires("read")
def show() -> Response:
    """Prometheus' text format; for a client that accepts JSON and no text, KernelGYM's answer."""
    if (
        flask.request.accept_mimetypes.best_match(["text/plain", "application/json"])
        == "application/json"
    ):
        return kernelgym.metrics()
    with request_context.database().snapshot() as connection:
        read = monitoring.read(connection)
    page = prometheus.text(read, request_context.request_metrics().collect())
    return Response(page, content_type=prometheus.CONTENT_TYPE)
