"""BROWSE: addresses of static files with a digest of their bytes: a browser keeps a file until it
changes, and a page that is opened asks for none that it has.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import flask

from app.web import bundles
from app.web.query_parameters import reads

FOREVER = "public, max-age=31536000, immutable"
DIGITS = 12
"""Digits of a file's SHA-256 in its address."""


def install(app: flask.Flask) -> None:
    """Have `url_for("static", …)` name the version, and answers to such an address be kept."""
    versions = _versions(Path(app.static_folder or ""))
    joined = bundles.views(Path(app.static_folder or ""))

    def add(endpoint: str, values: dict[str, Any]) -> None:
        if endpoint == "static" and (version := versions.get(values.get("filename", ""))):
            values.setdefault("v", version)

    def keep(response: flask.Response) -> flask.Response:
        if flask.request.endpoint == "static" and response.status_code in (200, 304):
            name = (flask.request.view_args or {}).get("filename", "")
            version = versions.get(name)
            if version is not None and flask.request.args.get("v") == version:
                response.headers["Cache-Control"] = FOREVER
        return response

    own = app.view_functions["static"]

    def send(filename: str) -> Any:
        return joined[filename]() if filename in joined else own(filename=filename)

    app.view_functions["static"] = reads("v")(send)
    app.url_defaults(add)
    app.after_request(keep)


def _versions(folder: Path) -> dict[str, str]:
    texts = bundles.texts(folder) | {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return {name: hashlib.sha256(text).hexdigest()[:DIGITS] for name, text in texts.items()}
