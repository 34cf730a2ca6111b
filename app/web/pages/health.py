"""BROWSE: whether this server can do its work, for whatever restarts it."""

from __future__ import annotations

import flask

from app.store.browse import overview
from app.store.session import DatabaseUnavailableError
from app.web import context
from app.web.identity import public

blueprint = flask.Blueprint("health", __name__)


@blueprint.get("/healthz")
@public
def check() -> tuple[flask.Response, int]:
    """200 when the database answers and has its tables, else 503 with the reason."""
    try:
        with context.database().snapshot() as connection:
            migrated = overview.migrated(connection)
    except DatabaseUnavailableError as error:
        flask.current_app.logger.error("%s", error)
        return flask.jsonify(ok=False, reason="the database is not reachable"), 503
    if not migrated:
        return flask.jsonify(ok=False, reason="the database has no tables; run `assay db upgrade`"), 503
    return flask.jsonify(ok=True, reason=None), 200
