"""BROWSE: for operators and admins: devices, storage, configuration, and raw tables.

Raw tables are our own page, not Flask-Admin's: that counts and skips rows for every page (0.2 to
0.4 s at a million of them), wants a mapped class for each table, and brings 24 MB of styles and
scripts that the content security policy has no use for.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib import metadata
from urllib.parse import urlsplit

import flask
from werkzeug.exceptions import BadRequest, NotFound
from werkzeug.wrappers import Response

from app.domain.user import Scope
from app.settings import Settings
from app.store.browse import admin
from app.store.queue import devices
from app.store.user import audit
from app.web import request_context, table_export
from app.web.identity import current_user, requires
from app.web.query_parameters import reads

EVENTS = 20
"""Latest changes of devices that are shown."""
PACKAGES = ("kernel-assay", "flask", "sqlalchemy", "psycopg", "celery", "redis", "pyarrow")
ACTIONS: dict[str, Callable[..., list[devices.Device]]] = {
    "drain": devices.drain,
    "quarantine": devices.quarantine,
    "resume": devices.resume,
}

blueprint = flask.Blueprint("admin", __name__)


@blueprint.get("/admin")
@requires(Scope.OPERATE)
def index(complaint: tuple[str, str] | None = None) -> str:
    """Devices with their actions, storage, and links to the other admin pages."""
    with request_context.database().snapshot() as connection:
        return flask.render_template(
            "admin.html",
            devices=devices.listed(connection),
            complaint=complaint,
            events=devices.events(connection, EVENTS),
            server=admin.server(connection),
            storage=admin.storage(connection),
            tables=admin.tables(),
            may_administer=current_user().may(Scope.ADMINISTER),
            links=table_export.links("admin.storage"),
        )


@blueprint.get("/admin/storage.<any(json,csv):kind>")
@requires(Scope.OPERATE)
def storage(kind: str) -> flask.Response:
    """Size of each table, as data."""
    with request_context.database().snapshot() as connection:
        return table_export.answer(kind, "tables", admin.storage(connection))


@blueprint.post("/admin/devices/<name>")
@requires(Scope.OPERATE)
def change_device(name: str) -> Response | tuple[str, int]:
    """Drain, quarantine or resume a device or a whole node, with a reason that stays."""
    action, reason = (
        flask.request.form.get("action", ""),
        flask.request.form.get("reason", "").strip(),
    )
    if action not in ACTIONS:
        raise BadRequest(f"action: expected one of {', '.join(ACTIONS)}, got {action!r}")
    if not reason and action != "resume":
        return index((name, f"Enter a reason to {action} {name}.")), 400
    user = current_user()
    with request_context.database().begin() as connection:
        try:
            before = {device.device: device.state for device in devices.named(connection, name)}
            after = ACTIONS[action](connection, name, reason=reason, changed_by=user.name)
        except devices.UnknownDeviceError as error:
            raise NotFound(str(error)) from error
        states = {device.device: [before.get(device.device), str(device.state)] for device in after}
        audit.record(
            connection,
            user,
            f"device.{action}",
            f"device {name}",
            {"reason": reason, "states": states},
        )
    return flask.redirect(flask.url_for("admin.index", _anchor="devices"))


@blueprint.get("/admin/configuration")
@requires(Scope.ADMINISTER)
def configuration() -> str:
    """The settings in force, without secrets, and the versions of programs and libraries."""
    return flask.render_template(
        "configuration.html",
        values=_configuration(request_context.settings()),
        versions={
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in PACKAGES},
        },
    )


@blueprint.get("/admin/tables/<name>")
@requires(Scope.ADMINISTER)
@reads("before")
def raw(name: str) -> str:
    """A table, row by row."""
    found = _raw(name, request_context.PAGE_ROWS)
    return flask.render_template(
        "raw.html",
        page=found,
        tables=admin.tables(),
        links=table_export.links("admin.raw_table", name=name, **flask.request.args),
        next=(
            flask.url_for("admin.raw", name=name, before=found.next_key) if found.next_key else None
        ),
    )


@blueprint.get("/admin/tables/<name>.<any(json,csv):kind>")
@requires(Scope.ADMINISTER)
@reads("before")
def raw_table(name: str, kind: str) -> flask.Response:
    """The rows as data; where there are more, the header Link leads to them."""
    found = _raw(name, request_context.TABLE_ROWS)
    response = table_export.answer(
        kind, name, [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    )
    if found.next_key:
        rest = flask.url_for("admin.raw_table", name=name, kind=kind, before=found.next_key)
        response.headers["Link"] = f'<{rest}>; rel="next"'
    return response


def _raw(name: str, most: int) -> admin.RawPage:
    with request_context.database().snapshot() as connection:
        try:
            found = admin.raw(
                connection,
                name,
                before=request_context.argument("before") or None,
                limit=most,
            )
        except ValueError as error:
            raise BadRequest(f"before: {error}") from error
    if found is None:
        raise NotFound(
            f"There is no table {name!r} to be shown; expected one of {', '.join(admin.tables())}."
        )
    return found


def _configuration(settings: Settings) -> list[dict[str, str]]:
    """Variable and value; of a URL, host and path without user and password."""
    return [
        {"variable": f"ASSAY_{name.upper()}", "value": _without_secret(name, value)}
        for name, value in vars(settings).items()
    ]


def _without_secret(name: str, value: object) -> str:
    """Only settings that are known to be harmless are printed; a new one with a
    secret-sounding name is not.
    """
    if value is None:
        return "not set"
    if name in ("database_url", "broker_url"):
        parts = urlsplit(str(value))
        hidden = "***@" if "@" in parts.netloc else ""
        return f"{parts.scheme}://{hidden}{parts.hostname or ''}{parts.path}"
    if any(word in name for word in ("secret", "password", "token", "key", "dsn")):
        return "set, not shown"
    return str(value)
