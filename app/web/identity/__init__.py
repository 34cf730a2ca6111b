"""BROWSE: who asks, and whether they may.

    from app.web.identity import current_user, requires

    @blueprint.post("/reviews")
    @requires("reviewer")           # a role, or one scope of app.domain.user
    def add(): …

    <form method="post">{{ csrf_field() }} …

Everything but what is marked `@public` wants somebody who is logged in or sends a token.  The one exception: while the
database holds no user at all, whoever sits at this machine is `LOCAL` and may do everything (`guard`)."""

from __future__ import annotations

import flask

import app.web.identity.login as login
import app.web.identity.members as members
from app.web.identity import csrf, guard

__all__ = ["current_user", "install", "public", "requires"]

current_user = guard.current_user
requires = guard.requires
public = guard.public


def install(app: flask.Flask) -> None:
    """Have `app` ask everybody who they are, and check where forms come from."""
    guard.install(app)
    csrf.install(app)
    app.register_blueprint(login.blueprint)
    app.register_blueprint(members.blueprint)
