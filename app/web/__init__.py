"""BROWSE: the web UI and the HTTP API over the database.  `create_app(settings)` is the way in.

Everything shown was written by a language model or a kernel under test.  Jinja escapes it,
`app.web.safe_text` makes hidden characters visible, and the content security policy lets only
Assay's scripts run.  That guards readers; `app.web.identity` guards the data: everything wants a
login or a token, except at a machine that has no users yet.
"""

from __future__ import annotations

import flask
import jinja2
from werkzeug.middleware.proxy_fix import ProxyFix

from app import broker
from app.settings import Settings
from app.store.postgres.database import Database
from app.web import (
    api,
    body_limits,
    errors,
    identity,
    jinja_filters,
    live_updates,
    navigation,
    path_converters,
    query_parameters,
    request_metrics,
    reward_upkeep,
    security_headers,
    static_versions,
)
from app.web.compat import kernelgym, trainers
from app.web.job_waiter import Watch
from app.web.pages import (
    admin,
    candidates,
    collecting,
    compare,
    dataset_rows,
    evaluations,
    exports,
    filter_completion,
    glossary,
    hacks,
    health,
    jobs,
    leaderboard,
    metrics,
    overview,
    problems,
    remarks,
    review,
    run_rewards,
    runs,
    saved_views,
    search,
    trainings,
    trajectories,
)
from app.web.submit_batcher import SubmitBatcher
from app.web.write_check import Writes

__all__ = ["create_app"]

PAGES = (
    overview,
    runs,
    trainings,
    run_rewards,
    leaderboard,
    collecting,
    problems,
    trajectories,
    evaluations,
    candidates,
    compare,
    review,
    hacks,
    dataset_rows,
    exports,
    admin,
    jobs,
    remarks,
    search,
    saved_views,
    filter_completion,
    glossary,
    health,
    metrics,
)
"""Modules with a blueprint each."""


class _Web(flask.Flask):
    """Flask with templates that make every printed string safe to look at, and
    refuse unknown names.
    """

    jinja_options = {  # noqa: RUF012 (Flask's own attribute)
        "finalize": jinja_filters.finalize,
        "undefined": jinja2.StrictUndefined,
        "trim_blocks": True,
    }


def create_app(settings: Settings) -> flask.Flask:
    """The WSGI application.  Connects when the first page is asked for.  Raises
    ValueError without a database URL.
    """
    if settings.database_url is None:
        raise ValueError("database_url: expected postgresql+psycopg://…, got nothing")
    app = _Web(__name__)
    app.json.sort_keys = False  # type: ignore[attr-defined]  # of the default provider: keys keep the documented order
    database = Database(settings.database_url)
    app.extensions["assay"] = {
        "settings": settings,
        "database": database,
        "watch": Watch(database),
        "writes": Writes(database),
        "request_metrics": request_metrics.install(app),
    }
    if settings.broker_url is not None:
        app.extensions["assay"]["submit_batcher"] = SubmitBatcher(
            database, broker.make_app(settings.broker_url)
        )
    app.jinja_env.filters.update(jinja_filters.FILTERS)
    path_converters.install(app)
    for page in PAGES:
        app.register_blueprint(page.blueprint)
    kernelgym.install(app)
    app.register_blueprint(trainers.blueprint)
    live_updates.install(app, database)
    reward_upkeep.install(app, database)
    navigation.install(app)
    app.register_blueprint(api.blueprint)
    body_limits.install(app)
    identity.install(app)
    query_parameters.install(app)
    security_headers.install(app)
    static_versions.install(app)
    errors.install(app)
    if proxies := settings.trusted_proxies:
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=proxies, x_proto=proxies, x_host=proxies)  # type: ignore[method-assign]
    return app
