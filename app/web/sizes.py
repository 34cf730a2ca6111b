"""BROWSE: size limits of request bodies: a few megabytes, and more where sources of kernels come in.

Decoding holds up every other request of this process, some 0.1 s for each megabyte of the worst JSON; so a route that
takes ids or a form takes no more than those can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import flask

USUAL_BODY_BYTES = 2 << 20
LARGEST_BODY_BYTES = 64 << 20
"""Limit for bodies with sources: two of the largest size (app.domain.request) fit.  More is answered with 413."""

P = ParamSpec("P")
R = TypeVar("R")


def large(view: Callable[P, R]) -> Callable[P, R]:
    """A view that takes sources: its body may be LARGEST_BODY_BYTES long."""
    view.assay_large = True  # type: ignore[attr-defined]
    return view


def of(view: Callable[..., object]) -> int:
    """The longest body that the view takes, in bytes."""
    return LARGEST_BODY_BYTES if getattr(view, "assay_large", False) else USUAL_BODY_BYTES


def install(app: flask.Flask) -> None:
    """Have `app` refuse bodies that are too long, before anything reads them."""
    app.config["MAX_CONTENT_LENGTH"] = USUAL_BODY_BYTES
    app.before_request(_limit)


def _limit() -> None:
    if flask.request.endpoint is not None:
        flask.request.max_content_length = of(flask.current_app.view_functions[flask.request.endpoint])
