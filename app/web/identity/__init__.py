"""BROWSE: authentication and authorisation.

    from app.web.identity import current_user, requires

    @blueprint.post("/reviews")
    @requires("reviewer")  # a role, or one scope of app.domain.user
    def add(): ...

and in a template `<form method="post">{{ csrf_field() }} …`.

Every view states the right it needs: `@public`, `@requires(…)`, or `@by_session` for changes of
one's own account.  One exception: while the database holds no user at all, a person at this machine
is `LOCAL` and may do everything (`authentication`).
"""

from __future__ import annotations

import flask

import app.web.identity.login as login
import app.web.identity.members as members
from app.web.identity import authentication, csrf

__all__ = ["by_session", "current_user", "install", "public", "requires"]

current_user = authentication.current_user
requires = authentication.requires
public = authentication.public
by_session = authentication.by_session


def install(app: flask.Flask) -> None:
    """Have `app` authenticate every request, and check the origin of forms."""
    authentication.install(app)
    csrf.install(app)
    app.register_blueprint(login.blueprint)
    app.register_blueprint(members.blueprint)
