"""BROWSE: the pages that the top of every page leads to."""

from __future__ import annotations

from dataclasses import dataclass

import flask

from app.domain.user import Scope, User

PAGES = (
    ("overview.page", "Overview", Scope.READ),
    ("runs.index", "Runs", Scope.READ),
    ("leaderboard.index", "Leaderboard", Scope.READ),
    ("collecting.index", "Collections", Scope.READ),
    ("problems.index", "Problems", Scope.READ),
    ("trajectories.index", "Trajectories", Scope.READ),
    ("candidates.index", "Evaluations", Scope.READ),
    ("jobs.index", "Jobs", Scope.READ),
    ("review.index", "Review", Scope.READ),
    ("hacks.index", "Hacks", Scope.READ),
    ("exports.index", "Exports", Scope.READ),
    ("admin.index", "Admin", Scope.OPERATE),
)
"""Endpoint, name, and the right it needs."""
THEMES = ("light", "dark")
"""Values of the cookie `theme`, which `static/theme.js` sets; without it pages
follow the system.
"""
BELOW = {
    "compare": "candidates",
    "dataset_rows": "exports",
    "evaluations": "candidates",
    "members": "admin",
    "run_rewards": "runs",
    "trainings": "runs",
}
"""Blueprint of pages below one of `PAGES` → blueprint of that page, where it is another."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A link of the navigation."""

    url: str
    name: str
    current: str | None
    """`page` on the page itself, `true` on those below it: the value of `aria-current`."""


def install(app: flask.Flask) -> None:
    """Give every template `navigation`, `reader` and `theme`."""
    app.context_processor(_values)


def _values() -> dict[str, object]:
    reader: User | None = flask.g.get("user")
    theme = flask.request.cookies.get("theme", "")
    return {
        "navigation": entries(reader) if reader else [],
        "reader": reader,
        "theme": theme if theme in THEMES else "",
    }


def entries(reader: User) -> list[Entry]:
    """The pages that this reader may open."""
    known = flask.current_app.view_functions
    return [
        Entry(url=flask.url_for(endpoint), name=name, current=_current(endpoint))
        for endpoint, name, scope in PAGES
        if endpoint in known and reader.may(scope)
    ]


def _current(endpoint: str) -> str | None:
    if flask.request.endpoint == endpoint:
        return "page"
    blueprint = flask.request.blueprint or ""
    return "true" if BELOW.get(blueprint, blueprint) == endpoint.split(".")[0] else None
