"""The text of pages, their links and their rows."""

from __future__ import annotations

import html
import re

from flask.testing import FlaskClient


def page(pages: FlaskClient, path: str, status: int = 200) -> str:
    """The body of a page, as text without markup."""
    return text_of(raw(pages, path, status))


def raw(pages: FlaskClient, path: str, status: int = 200) -> str:
    response = pages.get(path)
    assert response.status_code == status, f"{path}: {response.text[:2000]}"
    return response.text


def text_of(markup: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", markup)))


def links(markup: str) -> list[str]:
    return [
        html.unescape(target).split("#")[0]
        for target in re.findall(r'(?:href|src)="(/[^"]*)"', markup)
    ]


def listed(markup: str) -> list[str]:
    """Evaluations of a list, in order."""
    return list(
        dict.fromkeys(
            re.findall(r'<th scope="row"[^>]*><a href="/evaluations/([0-9a-f-]{36})"', markup)
        )
    )


def follow(markup: str, relation: str) -> str | None:
    found = re.search(rf'rel="{relation}" href="([^"]*)"', markup)
    return html.unescape(found[1]) if found else None
