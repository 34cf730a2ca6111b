"""BROWSE: parts of paths beyond those of Flask, and characters that no path has."""

from __future__ import annotations

import flask
from werkzeug.exceptions import NotFound
from werkzeug.routing import BaseConverter


class Collection(BaseConverter):
    """Id or name of a collection: a name may hold `/`, and never `:`, which comes
    before an action, or NUL.
    """

    regex = "[^:\\x00]+"
    part_isolating = False


class Given(BaseConverter):
    """Name or id that a sender gave: it may hold `/`, also first or twice, and ends of lines, and a
    run `/a` is another than `a`.
    """

    regex = "(?s:.+)"
    part_isolating = False


def install(app: flask.Flask) -> None:
    """Before the routes that use them are registered.  No stored name has NUL, so a path with one
    is of nothing.
    """
    app.url_map.converters |= {"collection": Collection, "given": Given}
    app.before_request(_refuse_nul)


def _refuse_nul() -> None:
    if "\0" in flask.request.path:
        raise NotFound(f"{flask.request.path!r}: not found")
