"""BROWSE: the web UI and the HTTP API over what is stored.  `create_app(settings)` is the way in.

Everything shown was written by a language model or a kernel under test.  Jinja escapes it, `app.web.text` makes
hidden characters visible, and the content security policy lets no script run but ours.  That guards readers;
`app.web.identity` guards the data: everything wants a login or a token, except at a machine that has no users yet."""

from __future__ import annotations

import flask
import jinja2

from app.settings import Settings
from app.store.session import Database
from app.web import errors, filters, headers, identity
from app.web.pages import evaluations, health, jobs, overview, problems, trajectories

__all__ = ["create_app"]


class _Web(flask.Flask):
    """Flask whose templates make every printed string safe to look at, and refuse unknown names."""

    jinja_options = {"finalize": filters.finalize, "undefined": jinja2.StrictUndefined, "trim_blocks": True}  # noqa: RUF012 (Flask's own attribute)


def create_app(settings: Settings) -> flask.Flask:
    """The WSGI application.  Connects when the first page is asked for.  Raises ValueError without a database URL."""
    if settings.database_url is None:
        raise ValueError("database_url: expected postgresql+psycopg://…, got nothing")
    app = _Web(__name__)
    app.json.sort_keys = False  # type: ignore[attr-defined]  # of the default provider: keys keep the documented order
    app.extensions["assay"] = {"database": Database(settings.database_url), "settings": settings}
    app.jinja_env.filters.update(filters.FILTERS)
    for page in (overview, evaluations, trajectories, problems, jobs, health):
        app.register_blueprint(page.blueprint)
    identity.install(app)
    headers.install(app)
    errors.install(app)
    return app
