"""BROWSE: lists of the API, newest first, page by page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import flask
import msgspec
from msgspec import Struct

from app.web import request_context
from app.web.api.endpoint import answer
from app.web.api.schemas import Limit


class ListQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    """Selection of a list; subclasses have its filters."""

    before: UUID | None = None
    limit: Limit = 50


def newest_first(
    noun: str, key: str, listed: Callable[..., list[Any]], query: ListQuery
) -> flask.Response:
    """The rows that `listed` gives for the fields of a query, and the URL of the next ones, None if
    there are none.  `key`: a row's field with its id.
    """
    asked = msgspec.structs.asdict(query)
    with request_context.database().snapshot() as connection:
        found = listed(connection, **asked | {"limit": query.limit + 1})
    shown, following = found[: query.limit], None
    if len(found) > len(shown):
        place = asked | {"before": getattr(shown[-1], key)}
        following = flask.url_for(f"api.{noun}_index", **place)
    return answer({noun: [vars(each) for each in shown], "next": following})
