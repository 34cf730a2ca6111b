"""BROWSE: the query parameters that each view reads.  A request with others is refused before the
view runs: a misspelt filter must not look like no filter.

    @blueprint.get("/notes")
    @requires("read")
    @reads("on", "author", "text", "tag")
    def index(): ...

A view without a declaration reads none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import flask
from werkzeug.exceptions import BadRequest

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Query parameters of a view."""

    once: tuple[str, ...] = ()
    """Parameters with one value."""
    lists: tuple[str, ...] = ()
    """Parameters that may be repeated."""
    are_checked_by_view: bool = False


NOTHING = Declared()


def reads(*once: str, lists: tuple[str, ...] = ()) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A view that reads these parameters; those of `lists` may be repeated."""
    return declared(Declared(once=once, lists=lists))


def checks_parameters(view: Callable[P, R]) -> Callable[P, R]:
    """A view that takes any parameters: it checks them itself, or passes them on."""
    return declared(Declared(are_checked_by_view=True))(view)


def declared(declaration: Declared) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A view with that declaration."""

    def decorate(view: Callable[P, R]) -> Callable[P, R]:
        view.assay_parameters = declaration  # type: ignore[attr-defined]
        return view

    return decorate


def of(view: Callable[..., object]) -> Declared:
    """Declaration of a view."""
    found = getattr(view, "assay_parameters", NOTHING)
    assert isinstance(found, Declared)
    return found


def install(app: flask.Flask) -> None:
    """Have `app` refuse parameters that its views do not read, after authentication."""
    app.before_request(_check)


def _check() -> None:
    request = flask.request
    if request.endpoint is None:
        return
    declaration = of(flask.current_app.view_functions[request.endpoint])
    if declaration.are_checked_by_view:
        return
    known = (*declaration.once, *declaration.lists)
    for name, values in request.args.lists():
        if name not in known:
            expected = f"one of {', '.join(known)}" if known else "none"
            raise BadRequest(f"unknown parameter {name!r}; expected {expected}")
        if len(values) > 1 and name not in declaration.lists:
            raise BadRequest(f"{name}: expected it once, got it {len(values)} times")
