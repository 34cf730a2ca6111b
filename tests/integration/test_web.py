"""Every page over a seeded and an empty database: lists, paging, refusals, escaping."""

from __future__ import annotations

import html
import re
import threading
from collections import Counter
from dataclasses import replace
from urllib.parse import urlencode
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from flask.testing import FlaskClient

from app.settings import Settings
from app.store import tables
from app.store.postgres.database import Database
from app.web import create_app, request_context, security_headers, serve
from app.web.pages import health
from tests.integration.page_text import follow, links, listed, page, raw, text_of
from tests.integration.web_seed import History


def test_every_page_that_links_lead_to_answers(pages: FlaskClient) -> None:
    """Some variants of each page are asked for: filters and orders link to each other endlessly."""
    todo, seen, ways = ["/", "/healthz"], set(), Counter[str]()
    while todo:
        path = todo.pop(0)
        kind = re.sub(r"[0-9a-f-]{12,}", "ID", path.partition("?")[0])
        if path in seen or ways[kind] >= 40:
            continue
        seen.add(path)
        ways[kind] += 1
        response = pages.get(path, buffered=True, follow_redirects=True)
        assert response.status_code == 200, path
        if response.mimetype == "text/html":
            todo += links(response.text)
    assert len(seen) > 100


def test_every_page_of_an_empty_database_answers(empty_pages: FlaskClient) -> None:
    for path in (
        "/",
        "/overview/live",
        "/candidates",
        "/trajectories",
        "/problems",
        "/review",
        "/review/quality",
        "/healthz",
    ):
        assert empty_pages.get(path).status_code == 200, path
    assert "assay demo" in page(empty_pages, "/")


def test_overview_counts_what_there_is(pages: FlaskClient, history: History) -> None:
    shown = page(pages, "/")
    assert f"{history.seeded.evaluation_count} in all" in shown
    assert "gpu.h200 normal 3 0" in shown
    assert "is quarantined and takes no jobs" in shown
    assert "NVIDIA H200" in shown
    for status in ("passed", "compile error", "out of memory", "crashed", "invalid"):
        assert status in shown


def test_live_fragment_is_sent_again_only_when_it_changed(
    empty_pages: FlaskClient, settings: Settings
) -> None:
    first = empty_pages.get("/overview/live")
    unchanged = empty_pages.get("/overview/live", headers={"If-None-Match": first.headers["ETag"]})
    if unchanged.status_code == 200:  # a minute ended in between: once more
        first = unchanged
        unchanged = empty_pages.get(
            "/overview/live", headers={"If-None-Match": first.headers["ETag"]}
        )
    assert (unchanged.status_code, unchanged.data) == (304, b"")
    assert first.headers["ETag"] in html.unescape(raw(empty_pages, "/"))
    database = Database(settings.database_url or "")
    with database.begin() as connection:
        connection.execute(
            tables.devices.insert().values(
                device_id=uuid4(),
                node="new",
                device_class="cpu",
                device_index=0,
                worker="w",
                heartbeat_at=sa.func.now(),
            )
        )
    database.dispose()
    changed = empty_pages.get("/overview/live", headers={"If-None-Match": first.headers["ETag"]})
    assert changed.status_code == 200
    assert "new.0" in changed.text


def test_pages_of_the_list_go_on_where_the_last_one_ended_and_back(
    pages: FlaskClient, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_context, "PAGE_ROWS", 20)
    found: list[tuple[str, list[str]]] = []
    path = "/candidates"
    while path:
        shown = raw(pages, path)
        found.append((path, listed(shown)))
        path = follow(shown, "next") or ""
    everything = [identifier for _, rows in found for identifier in rows]
    assert len(everything) == len(set(everything)) == history.seeded.evaluation_count
    assert [len(rows) for _, rows in found[:-1]] == [20] * (len(found) - 1)

    back, path = [], found[-1][0]
    while path:
        shown = raw(pages, path)
        back.append(listed(shown))
        path = follow(shown, "prev") or ""
    assert back[::-1][1:] == [rows for _, rows in found[1:]]
    assert back[-1] == found[0][1]


@pytest.mark.parametrize("noun", ["problems", "trajectories"])
def test_other_lists_page_both_ways(
    pages: FlaskClient, monkeypatch: pytest.MonkeyPatch, noun: str
) -> None:
    row = re.compile(rf'<th scope="row"[^>]*>(?:<div[^>]*>)?<a href="/{noun}/([0-9a-f-]+)"')
    everything = row.findall(raw(pages, f"/{noun}"))
    monkeypatch.setattr(request_context, "PAGE_ROWS", 2)
    forth, path = [], f"/{noun}"
    while path:
        shown = raw(pages, path)
        forth += row.findall(shown)
        last, path = path, follow(shown, "next") or ""
    assert forth == everything
    assert len(everything) >= 3
    before_last = follow(raw(pages, last), "prev")
    assert before_last is not None
    assert row.findall(raw(pages, before_last))


def test_filters_narrow_the_list_and_stay_in_the_links(
    pages: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_context, "PAGE_ROWS", 3)
    asked = {
        "status": "passed",
        "verdict": "hack",
        "backend": "triton",
        "gpu": "cpu",
        "where": "measured_speedup > 30",
    }
    shown = raw(pages, f"/candidates?{urlencode(asked)}")
    assert 'value="measured_speedup &gt; 30"' in shown
    assert '<option value="hack" selected>' in shown
    older = follow(shown, "next")
    assert older is not None
    for name, value in asked.items():
        assert urlencode({name: value}) in older
    rows = shown.split("<tbody>")[1].split("</tbody>")[0]
    assert pages.get(f"/evaluations?{urlencode(asked)}").location.endswith(
        f"/candidates?{urlencode(asked)}"
    )
    assert rows.count('<del class="struck"') == 3
    assert not set(listed(shown)) & set(listed(raw(pages, older)))


def test_hacks_have_no_credited_speedup(pages: FlaskClient, history: History) -> None:
    credited = urlencode({"where": "verdict = hack and speedup > 0"})
    assert "No evaluation matches" in page(pages, f"/candidates?{credited}")
    softmax = page(pages, f"/problems/{history.seeded.problems[0]}")
    assert "41.0×" not in softmax.split("Best candidates")[1].split("Latest evaluations")[0]


def test_problem_filter_contains_and_ignores_case(pages: FlaskClient) -> None:
    rows = raw(pages, "/candidates?problem=SOFTM").split("<tbody>")[1]
    assert "softmax" in rows
    assert "layer_norm" not in rows


def test_a_wrong_expression_is_answered_in_place(pages: FlaskClient) -> None:
    shown = raw(
        pages, "/candidates?" + urlencode({"where": 'speeed > "<b>"', "status": "passed"}), 400
    )
    assert "did you mean speedup?" in text_of(shown)
    assert 'value="speeed &gt; &#34;&lt;b&gt;&#34;"' in shown
    assert '<option value="passed" selected>' in shown


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/candidates?status=great", "status: expected one of passed, incorrect"),
        ("/candidates?gpu=h2000", "gpu: expected one of cpu, a100"),
        (
            "/candidates?older_than=yesterday",
            "older_than: cursor: expected '<time>_<evaluation id>', got 'yesterday'",
        ),
        ("/candidates?stauts=passed", "unknown parameter 'stauts'; expected one of status"),
        ("/glossary?find=turn", "unknown parameter 'find'; expected none"),
        ("/?hours=24&hours=72", "hours: expected it once, got it 2 times"),
        ("/hacks/decoy_kernel?cleared=no", "cleared: expected one of yes, got 'no'"),
        ("/candidates?problem=a%00b", "problem: expected text without NUL"),
        ("/trajectories?older_than=1", "older_than: expected a UUID, got '1'"),
        ("/problems?after=%3Cscript%3E", "after: expected a UUID, got '<script>'"),
    ],
)
def test_bad_parameters_say_what_was_expected(pages: FlaskClient, path: str, expected: str) -> None:
    assert expected in page(pages, path, 400)


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/evaluations/42",
        *(f"/{noun}/{UUID(int=7)}" for noun in ("evaluations", "problems", "trajectories", "jobs")),
    ],
)
def test_what_is_not_there_is_a_404_in_our_look(pages: FlaskClient, path: str) -> None:
    shown = raw(pages, path, 404)
    assert 'class="brand"' in shown


def test_only_reading_is_allowed(pages: FlaskClient) -> None:
    response = pages.post("/problems")
    assert response.status_code == 405
    assert "GET" in response.headers["Allow"]


def test_a_database_that_hangs_is_no_healthy_server(
    empty_pages: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert empty_pages.get("/healthz").status_code == 200
    back = threading.Event()
    monkeypatch.setattr(health, "_look", lambda *_: back.wait(60) and None)
    monkeypatch.setattr(health, "ANSWER_S", 0.05)
    answer = empty_pages.get("/healthz")
    back.set()
    assert (answer.status_code, answer.json["ok"]) == (503, False)
    assert "has not answered" in answer.json["reason"]


def test_static_files_are_kept_under_the_address_of_their_version(
    empty_pages: FlaskClient,
) -> None:
    page = empty_pages.get("/").text
    own = re.findall(r'(?:src|href|data-charts)="(/static/[^"#]+)', page)
    assert own
    assert all(re.search(r"\?v=[0-9a-f]{12}$", address) for address in own), own
    for address in own:
        with empty_pages.get(address) as answer:
            assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    for other in ("/static/assay.css", "/static/assay.css?v=000000000000"):
        with empty_pages.get(other) as answer:
            assert answer.headers["Cache-Control"] == "no-cache"


def test_candidates_cannot_speak_to_the_browser(pages: FlaskClient, history: History) -> None:
    shown = raw(pages, f"/evaluations/{history.seeded.evaluations['hostile']}")
    assert re.findall(r"<script[^>]*>", re.sub(r"\?v=[0-9a-f]{12}", "", shown)) == [
        '<script defer src="/static/page.js" data-charts="/static/charts.js">',
    ]
    assert "<img src=x" not in shown
    assert "⟨U+202E⟩" in shown
    assert "\x00" not in shown
    assert "\x1b" not in shown
    assert "{{ 7 * 7 }}" in text_of(shown)
    assert "</script><script>alert(1)</script>" in html.unescape(
        re.sub(r"</?span[^>]*>", "", shown)
    )


def test_messages_and_logs_are_escaped(pages: FlaskClient, history: History) -> None:
    trajectory = raw(pages, f"/trajectories/{history.seeded.trajectories[0]}?tab=prompt&turn=1")
    assert "<script>alert(3)" not in trajectory
    assert "&lt;script&gt;alert(3)" in trajectory
    log = raw(pages, f"/evaluations/{history.seeded.evaluations['runtime_error']}")
    assert '<span class="ansi-31">RuntimeError: shape mismatch &lt;b&gt;&amp;</span>' in log


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/healthz", "/static/assay.css", "/candidates?status=x"]
)
def test_every_answer_carries_the_security_headers(pages: FlaskClient, path: str) -> None:
    response = pages.get(path, buffered=True)
    for name, value in security_headers.HEADERS.items():
        assert response.headers[name] == value
    assert "unsafe" not in response.headers["Content-Security-Policy"]


def test_no_page_has_inline_script_or_style(pages: FlaskClient, history: History) -> None:
    for path in (
        "/",
        f"/evaluations/{history.seeded.evaluations['passed']}",
        f"/trajectories/{history.seeded.trajectories[0]}",
    ):
        shown = raw(pages, path)
        assert " style=" not in shown
        assert "<style" not in shown
        assert not re.search(r"\son\w+=", re.sub(r">[^<]*<", "><", shown))


def test_without_a_database_pages_say_so(history: History) -> None:
    nowhere = replace(history.settings, database_url="postgresql+psycopg://nobody@127.0.0.1:1/none")
    pages = create_app(nowhere).test_client()
    response = pages.get("/candidates")
    assert response.status_code == 503
    assert response.headers["Retry-After"]
    assert "The database is not reachable" in text_of(response.text)
    assert "127.0.0.1" not in response.text  # strangers need not know where it is
    health = pages.get("/healthz")
    assert (health.status_code, health.get_json()["ok"]) == (503, False)
    assert pages.get("/livez").status_code == 200


def test_healthz_wants_the_tables(pages: FlaskClient, services: object, history: History) -> None:
    healthy = pages.get("/healthz").get_json()
    assert (healthy["ok"], healthy["reason"]) == (True, None)
    assert sorted(healthy["devices"]) == ["draining", "offline", "online", "quarantined"]
    url = sa.make_url(history.settings.database_url or "").set(database="postgres")
    bare = create_app(
        replace(history.settings, database_url=url.render_as_string(hide_password=False))
    )
    response = bare.test_client().get("/healthz")
    assert response.status_code == 503
    assert "assay db upgrade" in response.get_json()["reason"]
    bare.extensions["assay"]["database"].dispose()


def test_healthz_wants_the_tables_of_its_own_version(
    pages: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.store.postgres.schema_revisions.head", lambda: "another")
    response = pages.get("/healthz")
    assert (
        response.status_code,
        "expected tables of revision another" in response.get_json()["reason"],
    ) == (503, True)


def test_no_database_url_is_refused() -> None:
    with pytest.raises(ValueError, match=r"database_url: expected postgresql\+psycopg"):
        create_app(Settings())


def test_the_server_says_what_it_lacks(tmp_path: object) -> None:
    done = CliRunner(env={"ASSAY_STATE_DIR": str(tmp_path)}).invoke(serve.main, [])
    assert done.exit_code == 1
    assert "expected ASSAY_DATABASE_URL" in done.output
