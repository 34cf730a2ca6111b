"""BROWSE: a form that was refused for its session, with its fields, so that it can be sent
again and nothing that a person wrote is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import flask

from app.web.identity import csrf

SECRET = frozenset({"password", "old", "new"})
"""Names of fields with a password: a form that has one is filled in anew."""
KEPT_CHARACTERS = 200_000
"""Longest form that is offered again: the page of the error holds all of it."""


@dataclass(frozen=True, kw_only=True)
class UnsentForm:
    """A form as it came: where it was sent, and its fields without the token."""

    action: str
    fields: tuple[tuple[str, str], ...]


def refused() -> UnsentForm | None:
    """The form of this request; None for forms that are not of our pages, hold a password or a
    file, or are too long to be shown.
    """
    request = flask.request
    if request.method != "POST" or not csrf.is_from_own_page():
        return None
    if any(file.filename for file in request.files.values()) or SECRET & set(request.form):
        return None
    fields = tuple(
        (name, value)
        for name, values in request.form.lists()
        for value in values
        if name != csrf.FIELD
    )
    if sum(len(value) for _, value in fields) > KEPT_CHARACTERS:
        return None
    return UnsentForm(action=request.full_path.rstrip("?"), fields=fields)
