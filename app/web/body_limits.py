"""BROWSE: size limits of request bodies: a few megabytes, and more where sources of kernels come
in.  Compressed ones are refused: their size is known only when they are unpacked.

Decoding holds up every other request of this process, some 0.1 s for each megabyte of the worst
JSON; so a route that takes ids or a form takes no more than those can be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, ParamSpec, TypeVar, cast

import flask
from werkzeug.exceptions import UnsupportedMediaType
from werkzeug.wsgi import LimitedStream

USUAL_BODY_BYTES = 2 << 20
"""Longest body of a request, but of those that carry whole dialogues."""
LARGEST_BODY_BYTES = 64 << 20
"""Limit for bodies with sources: two of the largest size (app.domain.request) fit.
More is answered with 413.
"""

P = ParamSpec("P")
R = TypeVar("R")


def large(view: Callable[P, R]) -> Callable[P, R]:
    """A view that takes sources: its body may be LARGEST_BODY_BYTES long."""
    view.assay_large = True  # type: ignore[attr-defined]
    return view


def of(view: Callable[..., object]) -> int:
    """The longest body that the view takes, in bytes."""
    return LARGEST_BODY_BYTES if getattr(view, "assay_large", False) else USUAL_BODY_BYTES


class _Unannounced(LimitedStream):
    """A body without a header for its length.  A longer one than the limit is refused, and never
    cut to it: a part of a body may be valid.
    """

    def on_exhausted(self) -> None:
        """Raise RequestEntityTooLarge where more follows."""
        if self._stream.read(1):
            super().on_exhausted()

    def readall(self) -> bytes:
        """Same as Werkzeug's, which does not look at the bytes that follow."""
        data = super().readall()
        if self.is_exhausted:
            self.on_exhausted()
        return data


def too_large() -> str | None:
    """The limit that a refused body exceeds, in words; None where the route has none."""
    request = flask.request
    most = request.max_content_length
    if most is None:
        return None
    if request.content_length is not None and request.content_length <= most:
        return f"form: expected at most {request.max_form_parts} fields, got more"
    return f"body: expected at most {most} bytes here, got more"


def install(app: flask.Flask) -> None:
    """Have `app` refuse bodies that are too long, before anything reads them."""
    app.config["MAX_CONTENT_LENGTH"] = USUAL_BODY_BYTES
    app.before_request(_limit)


def _limit() -> None:
    request = flask.request
    coding = request.headers.get("Content-Encoding", "identity")
    if coding.strip().lower() != "identity":
        raise UnsupportedMediaType(
            f"Content-Encoding: expected none, got {coding!r}: send the body uncompressed"
        )
    if request.endpoint is None:
        return
    request.max_content_length = of(flask.current_app.view_functions[request.endpoint])
    request.max_form_memory_size = request.max_content_length  # a field may be all of the form
    if request.content_length is None and "wsgi.input_terminated" in request.environ:
        body = _Unannounced(request.environ["wsgi.input"], request.max_content_length, is_max=True)
        request.stream = cast("IO[bytes]", body)
