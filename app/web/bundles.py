"""BROWSE: static files that every page needs, joined to one style sheet and one script: a page is
painted after its style sheets, and each request of a first visit takes a connection and its turn.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import flask

PRINTED = "print.css"
"""Style sheet of pages on paper."""

BUNDLES: dict[str, tuple[str, ...]] = {
    "page.css": ("assay.css", "workbench.css", "attempts.css", PRINTED),
    "page.js": ("assay.js", "keys.js", "search.js", "theme.js"),
}
"""Name of a joined file → its parts, in order."""

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


def texts(folder: Path) -> dict[str, bytes]:
    """Name of a joined file → its bytes."""
    return {
        name: "\n".join(_part(folder / part) for part in parts).encode()
        for name, parts in BUNDLES.items()
    }


def views(folder: Path) -> dict[str, Callable[[], flask.Response]]:
    """Name of a joined file → answer to a request of it."""
    return {name: _view(name, body) for name, body in texts(folder).items()}


def _part(path: Path) -> str:
    text = path.read_text()
    return f"@media print {{\n{text}}}\n" if path.name == PRINTED else text


def _view(name: str, body: bytes) -> Callable[[], flask.Response]:
    def answer() -> flask.Response:
        response = flask.Response(body, content_type=_TYPES[Path(name).suffix])
        response.add_etag()
        response.make_conditional(flask.request)
        return response

    return answer
