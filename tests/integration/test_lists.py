"""Lists: every order of every list walks all rows both ways, columns, totals,
completion, and errors that keep rows.
"""

from __future__ import annotations

import html
import re
from itertools import pairwise
from typing import Any

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from app.domain import filter_language, ids
from app.domain.evaluation import Status
from app.domain.verdict import Label
from app.store import tables
from app.store.browse import candidates as browse_candidates
from app.store.filter import rare_filters
from app.store.postgres.database import Database
from app.web import trajectory_list, vocabulary
from app.web.pages import candidates, exports, hacks, jobs, problems, runs
from app.web.table_view import Listing
from tests.integration.web_seed import History

LISTS = {
    "/runs": (runs.LISTING, "runs", "run_id"),
    "/problems": (problems.LISTING, "problems", "problem_id"),
    "/trajectories": (trajectory_list.LISTING, "trajectories", "trajectory_id"),
    "/candidates": (candidates.LISTING, "candidates", "evaluation_id"),
    "/jobs": (jobs.LISTING, "jobs", "job_id"),
    "/exports": (exports.LISTING, "exports", "export_id"),
    "/hacks": (hacks.LISTING, "detectors", "detector"),
}
"""Path → list, key of its rows in JSON, and the id of a row."""
VALUES = {("/candidates", "speedup"): "measured_speedup"}
SHARES = (
    "correct",
    "hacks",
    "faster_than_1",
    "faster_than_1_2",
    "faster_than_1_5",
    "faster_than_2",
)


def orders() -> list[tuple[str, str]]:
    return [
        (path, sign + column.name)
        for path, (listing, _, _) in LISTS.items()
        for column in listing.columns
        if column.sorts
        for sign in ("", "-")
    ]


def value(path: str, sort: str, row: dict[str, Any]) -> Any:
    name = VALUES.get((path, sort), sort)
    found = row[name]
    if path in ("/runs", "/problems") and sort in SHARES:
        return found / row["attempts"] if row["attempts"] else None
    if path == "/hacks" and isinstance(found, dict):
        return found["count"] / found["of"] if found["of"] else None
    return found


@pytest.mark.parametrize(("path", "sort"), orders())
def test_every_order_is_an_order_and_walks_both_ways(
    pages: FlaskClient, monkeypatch: pytest.MonkeyPatch, path: str, sort: str
) -> None:
    _, name, key = LISTS[path]
    whole = pages.get(f"{path}.json?sort={sort}").get_json()[name]
    values = [found for row in whole if (found := value(path, sort.lstrip("-"), row)) is not None]
    down = sort.startswith("-")
    if not isinstance(values[0] if values else 0, str) or sort.lstrip("-") == "created_at":
        assert all(a >= b if down else a <= b for a, b in pairwise(values))
    if path == "/hacks":
        return
    monkeypatch.setattr("app.web.request_context.PAGE_ROWS", 3)
    there: list[Any] = []
    url = f"{path}?sort={sort}"
    last = url
    while url and len(there) < 12:
        shown = pages.get(url).text
        there += ids_of(pages, path, url, name, key)
        last, url = url, link(shown, "next")
    assert there == [row[key] for row in whole[: len(there)]]
    back = link(pages.get(last).text, "prev")
    if back and len(there) > 6:
        assert ids_of(pages, path, back, name, key)[-1] in there


def ids_of(pages: FlaskClient, path: str, url: str, name: str, key: str) -> list[str]:
    data = pages.get(url.replace(path, f"{path}.json", 1)).get_json()[name]
    return [row[key] for row in data][:3]


def link(markup: str, relation: str) -> str:
    found = re.search(rf'rel="{relation}" href="([^"]*)"', markup)
    return html.unescape(found[1]) if found else ""


@pytest.mark.parametrize("path", [path for path in LISTS if path != "/hacks"])
def test_a_list_as_data_has_more_rows_than_a_page_and_says_where_the_rest_is(
    pages: FlaskClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """The first 50 of 575 rows would pass for all of them."""
    _, name, key = LISTS[path]
    monkeypatch.setattr("app.web.request_context.PAGE_ROWS", 1)
    whole = pages.get(f"{path}.json").get_json()[name]
    assert len(whole) > 1 or path in ("/runs", "/exports")
    following = link(pages.get(path).text, "next")
    assert bool(following) == (len(whole) > 1)
    if following:
        assert f'href="{path}.csv"' in pages.get(following).text, "from the first row on"
    monkeypatch.setattr("app.web.request_context.TABLE_ROWS", 2)
    there: list[str] = []
    url = f"{path}.json"
    while url and len(there) < len(whole):
        answer = pages.get(url)
        there += [row[key] for row in answer.get_json()[name]]
        url = answer.headers.get("Link", "")[1:].partition(">")[0]
    assert there == [row[key] for row in whole]


@pytest.mark.parametrize("path", LISTS)
def test_heads_say_the_order_have_tooltips_and_columns_are_chosen(
    pages: FlaskClient, path: str
) -> None:
    listing: Listing = LISTS[path][0]
    assert all(vocabulary.tip(column.heading) for column in listing.columns if column.heading)
    sorting = next(column for column in listing.columns if column.sorts)
    shown = pages.get(f"{path}?sort=-{sorting.name}").text
    if "<table" not in shown.split('aria-label="Results"')[-1]:
        return
    assert shown.count('aria-sort="descending"') == 1
    chosen = next(column for column in listing.columns if not column.is_fixed)
    narrow = pages.get(f"{path}?columns={chosen.name}").text
    others = [
        column.heading for column in listing.columns if column.is_usual and not column.is_fixed
    ]
    heads = re.findall(
        r'<th scope="col"[^>]*>(?:<a[^>]*>)?([^<]+)', narrow.split('class="list"')[-1]
    )
    assert chosen.heading in map(html.unescape, heads)
    assert len(set(others) & set(map(html.unescape, heads))) == 1
    assert "in all" in narrow
    assert pages.get(f"{path}?columns=nonsense").status_code == 400
    assert pages.get(f"{path}?sort=nonsense").status_code == 400


def test_trajectories_are_filtered_by_run_model_problem_and_outcome(pages: FlaskClient) -> None:
    def number(query: str) -> int:
        return len(pages.get(f"/trajectories.json?{query}").get_json()["trajectories"])

    every = number("")
    assert number("run=step-12") == number("run=RL-STEP-120") > 0
    assert number("run=nothing") == number("model=nothing") == 0
    assert number("outcome=correct") + number("outcome=not_correct") == every
    hacked = pages.get("/trajectories.json?outcome=hack").get_json()["trajectories"]
    assert hacked
    assert all(row["hacks"] for row in hacked)
    assert pages.get("/trajectories?outcome=odd").status_code == 400


@pytest.mark.parametrize("sort", trajectory_list.COMPUTED)
def test_an_order_without_an_index_is_made_of_few_trajectories_only(
    pages: FlaskClient, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    assert "Newest first" not in pages.get(f"/trajectories?sort=-{sort}").text
    for most in ("app.web.trajectory_list.REWARDED", "app.store.browse.trajectory_orders.MOST"):
        monkeypatch.setattr(most, 1)
    shown = pages.get(f"/trajectories?sort=-{sort}").text
    assert f"Newest first: the order by {sort} is made for at most 1 trajectories" in shown
    assert 'aria-sort="descending"' in shown.partition(">Created")[0].rpartition("<th")[2], (
        "the order that is shown"
    )
    assert pages.get(f"/trajectories.json?sort=-{sort}").status_code == 400


def test_device_times_are_a_column_and_a_filter_of_candidates(pages: FlaskClient) -> None:
    shown = pages.get("/candidates?columns=device_speedup&where=device_speedup+%3E+1").text
    assert re.findall(r"<strong>(\d\.\d\d×)</strong>", shown) == ["1.44×"]
    rows = pages.get("/candidates.json?where=device_speedup+%3E+1").get_json()["candidates"]
    assert [round(row["device_speedup"], 2) for row in rows] == [1.44]


def test_rewards_are_a_column_of_candidates_and_trajectories(pages: FlaskClient) -> None:
    for path in ("/candidates", "/trajectories"):
        shown = pages.get(f"{path}?columns=reward").text
        assert re.search(r'<td class="number">-?\d+\.\d{3}</td>', shown), path


def test_a_wrong_filter_keeps_the_rows_and_points_at_its_place(pages: FlaskClient) -> None:
    answer = pages.get("/candidates?status=passed&where=correct+and+clean")
    assert answer.status_code == 400
    assert "correct and <mark>clean</mark>" in answer.text
    assert 'data-wrong-at="13"' in answer.text
    assert (
        answer.text.count('<th scope="row"')
        == pages.get("/candidates?status=passed").text.count('<th scope="row"')
        > 3
    )


def test_a_rare_model_is_found_through_its_runs(
    pages: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(where: str) -> list[str]:
        rows = pages.get("/candidates.json", query_string={"where": where}).get_json()["candidates"]
        return [row["evaluation_id"] for row in rows]

    model = pages.get("/runs.json?name=rl-step-120").get_json()["runs"][0]["model"]
    rare = found(f"model = {model}")
    monkeypatch.setattr("app.store.filter.rare_filters.RARE_RUNS", 0)
    assert rare == found(f"model = {model}") == found(f"model in ({model})") != []
    assert found("model = nothing") == []


@pytest.mark.parametrize("path", ["/candidates", "/runs", "/trajectories", "/jobs", "/review"])
def test_a_long_name_takes_some_lines_of_its_row(pages: FlaskClient, path: str) -> None:
    assert re.search(r'<t[dh][^>]*class="break"><div class="clamp">\s*\S', pages.get(path).text)


def test_a_filter_is_completed(pages: FlaskClient) -> None:
    def offered(text: str) -> list[str]:
        answer = pages.get(
            "/filters/complete", query_string={"text": text, "at": len(text)}
        ).get_json()
        return [option["text"] for option in answer["options"]]

    assert offered("correct and verd") == ["verdict"]
    assert "rl-step-120" in offered("run = rl")
    assert "softmax" in offered("problem ~ soft")
    assert offered("finding = decoy") == ["decoy_kernel"]
    assert pages.get("/filters/complete?text=a&at=5").status_code == 400


def test_the_total_of_a_list_is_the_number_of_its_rows(pages: FlaskClient) -> None:
    for path, key in (("runs", "runs"), ("problems", "problems"), ("trajectories", "trajectories")):
        rows = pages.get(f"/{path}.json").get_json()[key]
        said = re.search(r"(\d+) rows? in all", pages.get(f"/{path}").text)
        assert said is not None, path
        assert int(said[1]) == len(rows) < 50, path


def test_an_evaluation_that_two_turns_share_is_counted_once(
    pages: FlaskClient, history: History
) -> None:
    database = Database(history.settings.database_url or "")
    with database.begin() as connection:
        every = rare_filters.narrowed(connection, filter_language.parse(""))
        before = browse_candidates.facets(connection, every).looked_at
        [turn] = connection.execute(
            sa.select(tables.turns).where(tables.turns.c.job_id.is_not(None)).limit(1)
        )
        last = sa.select(sa.func.max(tables.turns.c.turn_index)).where(
            tables.turns.c.trajectory_id == turn.trajectory_id
        )
        twice = dict(turn._mapping) | {
            "turn_id": ids.new_id(),
            "turn_index": connection.scalar(last) + 1,
        }
        connection.execute(tables.turns.insert().values(twice))
        assert browse_candidates.facets(connection, every).looked_at == before
        connection.rollback()
    database.dispose()


def test_a_count_on_the_overview_is_the_length_of_the_list_that_it_links(
    pages: FlaskClient,
) -> None:
    """Statuses and verdicts; `clean` counts only passed ones, on the overview, among
    the facets, and in the list.
    """
    counted = re.findall(
        r'<li><a href="/candidates\?([^"]+)">.*?<span class="number">(\d+)</span>',
        pages.get("/").text,
        re.DOTALL,
    )
    assert {query.partition("=")[0] for query, _ in counted} == {"status", "verdict"}
    for query, number in counted:
        assert len(pages.get(f"/candidates.json?{query}").get_json()["candidates"]) == int(
            number
        ), query
    facets = (
        pages.get("/candidates").text.partition("<h2>Verdict</h2>")[2].partition("</section>")[0]
    )
    shown = re.findall(r'href="/candidates\?verdict=(\w+)">.*?small">(\d+)<', facets)
    assert {(f"verdict={value}", number) for value, number in shown} == {
        each for each in counted if each[0].startswith("verdict")
    }


def test_verdicts_beside_statuses_find_the_same_as_a_look_at_every_row(pages: FlaskClient) -> None:
    """They are looked up by key where the roll-up counts few of them, and not at all
    where it counts none.
    """
    rows = pages.get("/candidates.json").get_json()["candidates"]
    assert {(row["verdict"], row["status"]) for row in rows} >= {
        ("hack", "passed"),
        ("clean", "incorrect"),
    }
    for label in Label:
        for status in Status:
            where = f"verdict = {label} and status = {status}"
            found = pages.get("/candidates.json", query_string={"where": where}).get_json()[
                "candidates"
            ]
            expected = [row for row in rows if (row["verdict"], row["status"]) == (label, status)]
            assert found == expected, where


def test_trajectories_of_a_run_are_not_those_of_another_whose_name_begins_so(
    pages: FlaskClient, history: History
) -> None:
    """`rl-step-12` is a part of `rl-step-120`: links of a run and of a problem name the id."""
    database = Database(history.settings.database_url or "")
    with database.begin() as connection:
        run_id = ids.new_id()
        connection.execute(
            tables.runs.insert().values(run_id=run_id, name="rl-step-12", settings={})
        )
    longer = next(
        run for run in pages.get("/runs.json").get_json()["runs"] if run["name"] == "rl-step-120"
    )
    for each in (str(run_id), longer["run_id"]):
        [link] = re.findall(
            r'href="(/trajectories\?[^"]+)">Trajectories</a>', pages.get(f"/runs/{each}").text
        )
        listed = pages.get(html.unescape(link).replace("?", ".json?")).get_json()["trajectories"]
        assert {row["run_id"] for row in listed} == (
            {longer["run_id"]} if each == longer["run_id"] else set()
        )
    shown = pages.get(f"/trajectories?run_id={longer['run_id']}&outcome=correct").text
    assert 'Only run <a href="/runs/' in shown
    assert f'<input type="hidden" name="run_id" value="{longer["run_id"]}">' in shown
    assert pages.get("/trajectories?run_id=x").status_code == 400
    assert pages.get(f"/trajectories?problem_id={ids.new_id()}").status_code == 404
    with database.begin() as connection:
        connection.execute(tables.runs.delete().where(tables.runs.c.run_id == run_id))
    database.dispose()
