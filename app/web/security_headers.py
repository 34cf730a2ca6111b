"""BROWSE: headers of every answer.  The policy allows our own files and nothing
else: no inline script or style.
"""

from __future__ import annotations

import flask

POLICY = "; ".join(
    (
        "default-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


HANDS_OVER = frozenset({"evaluations.timeline_page"})
"""Pages that hand data to a page they open (Perfetto); all others are cut off from
pages they open.
"""


ADDS_STYLES = frozenset({"evaluations.speedscope"})
"""Pages of a vendored viewer that adds a style element; they show no text as markup."""


def install(app: flask.Flask) -> None:
    """Have every answer of `app`, errors included, carry HEADERS."""
    app.after_request(_add)


def _add(response: flask.Response) -> flask.Response:
    response.headers.update(HEADERS)
    if flask.request.endpoint in HANDS_OVER:
        response.headers["Cross-Origin-Opener-Policy"] = "same-origin-allow-popups"
    if flask.request.endpoint in ADDS_STYLES:
        response.headers["Content-Security-Policy"] = f"{POLICY}; style-src 'self' 'unsafe-inline'"
    if flask.request.endpoint != "static":
        response.headers.setdefault("Cache-Control", "no-cache")  # ask again, but with the ETag
    return response
