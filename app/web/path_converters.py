"""BROWSE: parts of paths beyond those of Flask."""

from __future__ import annotations

import flask
from werkzeug.routing import BaseConverter


class Collection(BaseConverter):
    """Id or name of a collection: a name may hold `/`, and never `:`, which comes
    before an action, or NUL.
    """

    regex = "[^:\\x00]+"
    part_isolating = False


def install(app: flask.Flask) -> None:
    """Before the routes that use them are registered."""
    app.url_map.converters["collection"] = Collection
