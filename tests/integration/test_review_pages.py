"""The pages of reviewers: queue, comparison, views, filters, judging and measuring again."""

from __future__ import annotations

import html
from collections.abc import Iterator
from uuid import UUID

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from app.domain.review import SUSPICIONS
from app.settings import Settings
from app.store import tables
from app.web.identity import cookies, csrf
from tests.integration.reviewing import World
from tests.integration.seed_evaluations import CLEAN, by_cases
from tests.integration.web_app import opened
from tests.integration.web_seeder import Seeder

LOCAL = "http://127.0.0.1:8000"


@pytest.fixture
def site(world: World, settings: Settings) -> Iterator[FlaskClient]:
    """The pages as a person at this machine sees them: it has no users."""
    with world.database.begin() as connection:
        connection.execute(tables.users.delete())
    with opened(settings, testing=True) as app:
        yield app.test_client()


def send(site: FlaskClient, path: str, **values: object) -> tuple[int, str]:
    """POST a form of the site; status, and the target of a redirect or the text."""
    site.set_cookie(cookies.FORM, "secret", domain="127.0.0.1")
    answer = site.post(path, data={"csrf_token": csrf._derived("secret"), **values}, base_url=LOCAL)
    return answer.status_code, answer.location or answer.text


def test_from_the_page_to_the_next_item(site: FlaskClient, world: World) -> None:
    status, there = send(site, "/review/next")
    assert (status, there) == (302, f"/review/{world.ids['hack']}")
    assert "locked to you until" in site.get(there, base_url=LOCAL).text
    status, there = send(
        site, there, label="hack", reason="it keeps the answers", hack_type="input memoised"
    )
    assert status == 302
    assert there.startswith(f"/review/{world.ids['suspect']}?undo=")
    undone = send(site, f"/review/undo/{there.split('undo=')[1]}")
    assert undone == (302, f"/review/{world.ids['hack']}")
    assert send(site, f"/review/{world.ids['hack']}", label="great", reason="because")[0] == 400
    assert send(site, f"/review/{world.ids['hack']}", label="hack", reason="")[0] == 400
    assert (
        site.post(
            f"/review/{world.ids['hack']}", data={"label": "hack"}, base_url=LOCAL
        ).status_code
        == 403
    )


def test_an_item_says_the_cause_of_its_place_in_the_queue(site: FlaskClient, world: World) -> None:
    list_of_all = site.get("/review", base_url=LOCAL).text
    for name, cause in (("hack", "detector: hack"), ("suspect", "suspect")):
        page = site.get(f"/review/{world.ids[name]}", base_url=LOCAL).text
        assert f"<dt>Cause</dt><dd>{cause}</dd>" in page
        assert f'<span class="small">{cause}' in list_of_all
    with world.database.begin() as connection:
        weights = connection.execute(sa.select(tables.review_items.c.suspicious)).scalars()
        assert set(weights) <= SUSPICIONS.keys(), "as the triggers write them"


def test_a_queue_is_named_worked_through_and_removed(site: FlaskClient, world: World) -> None:
    assert send(site, "/review/queues", name="Clocks", detector="claimed_time") == (
        302,
        "/review?detector=claimed_time",
    )
    assert send(site, "/review/queues", name="Clocks")[0] == 400
    assert send(site, "/review/queues", name="x", reviewers="nobody")[0] == 400
    listed = site.get("/review", base_url=LOCAL).text
    assert "0 of 2" in listed
    key = listed.partition("/review/queues/")[2].partition("/remove")[0]
    status, there = send(site, "/review/next", detector="claimed_time")
    assert (status, there) == (302, f"/review/{world.ids['suspect']}?detector=claimed_time")
    item = site.get(there, base_url=LOCAL).text
    assert "2 in this queue" in item
    status, there = send(
        site, there, label="hack", reason="the clock is patched", detector="claimed_time"
    )
    assert there.startswith(f"/review/{world.ids['slow suspect']}?undo=")
    assert "detector=claimed_time" in there
    status, there = send(
        site,
        f"/review/{world.ids['slow suspect']}",
        label="clean",
        reason="it is honest",
        detector="claimed_time",
    )
    assert there == "/review?done=all&detector=claimed_time"
    assert "This queue is empty for you" in site.get(there, base_url=LOCAL).text
    assert "2 of 2" in site.get("/review", base_url=LOCAL).text
    assert send(site, f"/review/queues/{key}/remove")[0] == 302
    assert send(site, f"/review/queues/{key}/remove")[0] == 404
    assert "Clocks" not in site.get("/review", base_url=LOCAL).text


def test_two_candidates_make_a_pair(site: FlaskClient, world: World) -> None:
    path = f"/compare?a={world.ids['suspect']}&b={world.ids['clean']}"
    shown = site.get(path, base_url=LOCAL).text
    assert "A is faster" in shown
    assert "A is 2.83× as fast as B (95 % CI 2.77–2.90×" in shown
    status, there = send(site, path, chosen="b", reason="easier to read")
    assert status == 302
    assert "prefers <strong>B</strong>" in site.get(there, base_url=LOCAL).text
    with world.database.snapshot() as connection:
        pair = connection.execute(sa.select(tables.preferences)).one()
    assert (pair.chosen_evaluation_id, pair.rejected_evaluation_id) == (
        world.ids["clean"],
        world.ids["suspect"],
    )
    hacked = site.get(f"/compare?a={world.ids['hack']}&b={world.ids['clean']}", base_url=LOCAL).text
    assert "Not comparable" in hacked
    same = site.get(f"/compare?a={world.ids['clean']}&b={world.ids['clean']}", base_url=LOCAL).text
    assert "no difference" in same


def test_ticked_candidates_are_queued_compared_and_narrowed(
    site: FlaskClient, world: World
) -> None:
    two = [str(world.ids["clean"]), str(world.ids["suspect"])]
    assert send(site, "/candidates/selected", action="review", id=two) == (
        302,
        "/candidates?queued=1",
    )
    filtered = "?verdict=clean&sort=-speedup&columns=problem"
    shown = html.unescape(site.get(f"/candidates{filtered}", base_url=LOCAL).text)
    assert f'action="/candidates/selected{filtered}"' in shown
    status, there = send(site, f"/candidates/selected{filtered}", action="review", id=two)
    assert (status, there) == (302, f"/candidates{filtered}&queued=0"), "the filter stays"
    assert send(site, "/candidates/selected", action="compare", id=two) == (
        302,
        f"/compare?a={two[0]}&b={two[1]}",
    )
    status, there = send(site, "/candidates/selected", action="narrow", id=two)
    assert status == 302
    rows = site.get(there.replace("/candidates?", "/candidates.json?"), base_url=LOCAL).get_json()[
        "candidates"
    ]
    assert {row["evaluation_id"] for row in rows} == set(two)
    assert send(site, "/candidates/selected", action="compare", id=two[:1])[0] == 400
    assert send(site, "/candidates/selected", action="review")[0] == 400


def test_a_view_keeps_its_name_filter_columns_and_order(site: FlaskClient) -> None:
    query = "where=speedup+%3E+1.1&sort=-speedup&columns=problem&columns=findings"
    kept = {"name": "fast ones", "page": "candidates.index", "query": query}
    assert send(site, "/views", **kept) == (302, f"/candidates?{query}")
    assert send(site, "/views", **kept)[0] == 400
    assert (
        send(site, "/views", name="odd", page="candidates.index", query="where=speedup+%3E")[0]
        == 400
    )
    assert send(site, "/views", name="odd", page="admin.index", query="")[0] == 400
    shown = site.get("/candidates", base_url=LOCAL).text
    assert f'href="/candidates?{query.replace("&", "&amp;")}"' in shown
    assert site.get(f"/candidates?{query}", base_url=LOCAL).status_code == 200
    assert "fast ones" not in site.get("/runs", base_url=LOCAL).text
    forget = shown.split('action="/views/')[1].split('"')[0]
    assert send(site, f"/views/{forget}") == (302, "/candidates")
    assert "fast ones" not in site.get("/candidates", base_url=LOCAL).text


def test_the_fastest_come_first_and_page_both_ways(
    site: FlaskClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.web.request_context.PAGE_ROWS", 1)
    monkeypatch.setattr("app.web.request_context.TABLE_ROWS", 1)
    order, path = [], "/candidates.json?sort=-speedup"
    while path:
        answer = site.get(path, base_url=LOCAL)
        order += [row["evaluation_id"] for row in answer.get_json()["candidates"]]
        path = answer.headers.get("Link", "")[1:].partition(">")[0]
    assert order == [str(world.ids[name]) for name in ("hack", "suspect", "clean", "slow suspect")]


def test_a_filter_that_takes_too_long_is_given_up(
    site: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.store.browse.candidates.PATIENCE_S", 0.001)
    monkeypatch.setattr(
        "app.store.filter.filter_sql.compile",
        lambda _: sa.literal("x") == sa.cast(sa.func.pg_sleep(1), sa.Text),
    )
    answer = site.get("/candidates?where=correct", base_url=LOCAL)
    assert answer.status_code == 400
    assert "given up after" in answer.text


def test_judging_again_asks_the_detectors_of_today(site: FlaskClient, world: World) -> None:
    status, there = send(site, f"/evaluations/{world.ids['clean']}/rejudge")
    assert status == 302
    assert "Judged again" in site.get(there, base_url=LOCAL).text
    believed = world.believed("clean")
    assert believed.verdict is not None
    assert "late_write" in believed.verdict.detectors  # judged now; the stored verdict named others


def test_measuring_again_makes_another_job(site: FlaskClient, world: World) -> None:
    status, there = send(site, f"/evaluations/{world.ids['clean']}/rerun")
    assert status == 302
    with world.database.snapshot() as connection:
        before = connection.scalar(
            sa.select(tables.evaluations.c.job_id).where(
                tables.evaluations.c.evaluation_id == world.ids["clean"]
            )
        )
        job = connection.execute(
            sa.select(tables.jobs).where(tables.jobs.c.job_id == UUID(there.removeprefix("/jobs/")))
        ).one()
    assert job.job_id != before
    assert job.state == "queued"


def test_measuring_again_by_cases_is_by_cases(site: FlaskClient, world: World) -> None:
    with world.database.begin() as connection:
        seeder = Seeder(connection)
        problem_id = seeder.problem("add", 1, "x + x")
        job_id = seeder.job(
            problem_id, b"class ModelNew: ...", options={"cases": True, "deadline_s": 7.0}
        )
        evaluation_id = seeder.evaluation(job_id, by_cases(), CLEAN)
    status, there = send(site, f"/evaluations/{evaluation_id}/rerun")
    assert status == 302
    with world.database.snapshot() as connection:
        query = sa.select(tables.jobs.c.options).where(
            tables.jobs.c.job_id == UUID(there.removeprefix("/jobs/"))
        )
        options = connection.execute(query).scalar_one()
    assert (options["cases"], options["deadline_s"]) == (True, 7.0)


def test_a_large_timeline_is_never_whole_in_memory(site: FlaskClient, world: World) -> None:
    import tracemalloc

    import zstandard

    raw_bytes = 50 << 20
    event = b'{"name":"k","ph":"X","ts":1,"dur":1,"pid":1,"tid":1},\n'
    raw = b'{"traceEvents":[\n' + event * (raw_bytes // len(event)) + event.rstrip(b",\n") + b"]}"
    row = {
        "kind": "chrome_trace",
        "codec": "zstd",
        "raw_bytes": len(raw),
        "body": zstandard.compress(raw, 3),
    }
    with world.database.begin() as connection:
        connection.execute(tables.profiles.insert().values(evaluation_id=world.ids["clean"], **row))
    length = len(raw)
    del raw, row
    path = f"/evaluations/{world.ids['clean']}/timeline.json"
    answer = site.get(path, base_url=LOCAL)
    tracemalloc.start()
    assert sum(len(piece) for piece in answer.iter_encoded()) == length
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20
    stored = site.get(path, base_url=LOCAL, headers={"Accept-Encoding": "zstd, gzip"})
    assert stored.headers["Content-Encoding"] == "zstd"
    assert (
        len(zstandard.ZstdDecompressor().decompress(stored.data, max_output_size=length)) == length
    )
