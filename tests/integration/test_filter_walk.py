"""A search that its time limit ends: the page says so, and links to the rest."""

from __future__ import annotations

import html
import re

import pytest
from flask.testing import FlaskClient

from app.store.filter import filter_walk
from app.web.pages import candidates
from tests.integration.web_seed import History

FILTERS = ("not valid or speedup > 0.5", "turn >= 1 and not correct", "finding != decoy_kernel")
ORDERS = ("-created_at", "created_at", "-speedup", "candidate_us")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that reads windows of three evaluations, one for each page."""
    monkeypatch.setattr(filter_walk, "TRIED_S", 0.0)
    monkeypatch.setattr(filter_walk, "LEAST_WINDOW", 3)
    monkeypatch.setattr(candidates, "SEARCH_S", 0.0)
    monkeypatch.setattr(candidates, "FURTHER_S", 0.0)


def _listed(page: str) -> list[str]:
    return re.findall(r'name="id" value="([0-9a-f-]{36})"', page)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("where", FILTERS)
def test_searches_that_go_on_find_every_row_once_and_in_order(
    pages: FlaskClient, history: History, hurried: None, where: str, order: str
) -> None:
    answer = pages.get("/candidates.json", query_string={"where": where, "sort": order})
    expected = [row["evaluation_id"] for row in answer.json["candidates"]]
    assert expected
    found: list[str] = []
    address: str | None = f"/candidates?where={where}&sort={order}"
    stops = 0
    while address:
        page = pages.get(address).text
        found += _listed(page)
        link = re.search(r'href="([^"]+)" title="[^"]+">Search further<', page)
        assert (link is None) == ("not searched yet" not in page)
        address = html.unescape(link[1]) if link else None
        stops += link is not None
    assert found == expected
    assert stops >= 1


def test_a_stopped_search_tells_how_far_it_came_and_counts_no_total(
    pages: FlaskClient, history: History, hurried: None
) -> None:
    page = pages.get("/candidates?where=problem+=+nothing").text
    assert "No evaluation matches" in page, "a filter that names no problem needs no search"
    page = pages.get("/candidates?where=speedup+>+1000+or+speedup+<+0.001").text
    assert "3 evaluations searched, back to" in page
    assert "no match there" in page
    assert "No evaluation matches" not in page


def test_a_search_that_ends_in_time_is_whole(pages: FlaskClient, history: History) -> None:
    page = pages.get("/candidates?where=not+valid+or+speedup+>+0.5").text
    assert "not searched yet" not in page
