"""BROWSE: health of this server, for its supervisor."""

from __future__ import annotations

from collections import Counter

import flask

from app.domain.device import DeviceState
from app.store import devices
from app.store.browse import overview
from app.store.session import DatabaseUnavailableError
from app.web import context
from app.web.identity import public

blueprint = flask.Blueprint("health", __name__)


@blueprint.get("/healthz")
@public
def check() -> tuple[flask.Response, int]:
    """200 when the database answers and has its tables, else 503 with the reason.

    `devices` counts them by state: a quarantined one is no reason to start this server again, and one to look."""
    try:
        with context.database().snapshot() as connection:
            migrated = overview.migrated(connection)
            known = devices.listed(connection) if migrated else []
    except DatabaseUnavailableError as error:
        flask.current_app.logger.error("%s", error)
        return flask.jsonify(ok=False, reason="the database is not reachable"), 503
    if not migrated:
        return flask.jsonify(ok=False, reason="the database has no tables; run `assay db upgrade`"), 503
    states = Counter(device.state for device in known)
    counted = {str(state): states[state] for state in DeviceState}
    return flask.jsonify(ok=True, reason=None, devices=counted), 200
