"""BROWSE: the HTTP protocol of KernelGYM, so that its reward client and trainer
scripts run against Assay unchanged.

`tasks` has candidates evaluated, `monitoring` answers monitoring; `responses` is the mapping of a
result, `requests` that of a body, both pure.  The paths are at the root, as there, and once more
under `/kernelgym`, where `/` and `/metrics` are theirs, too.  A client that can send no token has
it in its URL: `http://user:TOKEN@host:8000`.
"""

from __future__ import annotations

import flask

from app.web.compat.kernelgym import errors, monitoring, tasks

__all__ = ["install"]

PREFIX = "/kernelgym"


def install(app: flask.Flask) -> None:
    """Have `app` speak it."""
    app.register_blueprint(_made("kernelgym"))
    prefixed = _made("kernelgym_prefixed")
    prefixed.register_blueprint(monitoring.mounted)
    app.register_blueprint(prefixed, url_prefix=PREFIX)


def _made(name: str) -> flask.Blueprint:
    blueprint = flask.Blueprint(name, __name__)
    blueprint.register_blueprint(tasks.blueprint)
    blueprint.register_blueprint(monitoring.blueprint)
    errors.install(blueprint)
    return blueprint
