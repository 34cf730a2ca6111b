"""Ways through the pages in a browser: from a question to its answer, or to a
dataset, by links and forms alone.
"""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

from playwright.sync_api import Locator, Page, Route, expect

from app import export
from app.domain.dataset.selection import Stale
from app.settings import Settings
from app.store import tables
from app.store.postgres.database import Database
from tests.integration import fakes
from tests.integration.browser_site import LiveSite, serving
from tests.integration.two_runs import TwoRuns
from tests.integration.web_seed import exportable
from tests.integration.web_seeder import Seeder


def go(page: Page, live_site: LiveSite, path: str) -> None:
    """Open a page; a request that ended by leaving the one before is no complaint."""
    page.goto(live_site.url + path)
    live_site.complaints.clear()


def test_from_the_newest_run_to_why_a_turn_is_a_hack(page: Page, live_site: LiveSite) -> None:
    go(page, live_site, "/runs")
    page.get_by_role("link", name="rl-step-120").first.click()
    page.get_by_role("link", name=re.compile("All .*problems")).first.click()
    page.get_by_role("link", name="most hacks first").click()
    row = page.locator("table.list tbody tr").first
    row.get_by_role("link", name="trajectories").click()
    page.get_by_role("region", name="Results").get_by_role(
        "link", name="matmul_relu/"
    ).first.click()
    page.get_by_role("link", name="first hack:").click()
    page.get_by_label("Views of turn").get_by_role("link", name="Verdict").click()
    expect(page.locator("#verdict")).to_contain_text("hack")


def test_a_comment_and_a_tag_are_raised_and_found(page: Page, live_site: LiveSite) -> None:
    go(page, live_site, live_site.path("trajectory"))
    page.fill("#new-comment", "The **mask** of the last block is off by one.")
    page.get_by_role("button", name="Comment", exact=True).click()
    page.fill("#new-tag", "mask-bug")
    page.get_by_role("button", name="Add tag").click()
    expect(page.locator("#notes")).to_contain_text("mask-bug")
    page.locator("#notes").get_by_role("link", name="mask-bug").click()
    page.wait_for_url("**/notes?tag=mask-bug")
    expect(page.locator("main")).to_contain_text("softmax/0")
    go(page, live_site, "/search?q=mask-b")
    expect(page.get_by_role("region", name="Results")).to_contain_text("mask-bug")


def test_a_whole_conversation_is_read_and_copied(page: Page, live_site: LiveSite) -> None:
    go(page, live_site, live_site.path("trajectory"))
    page.get_by_role("link", name=re.compile("[Cc]onversation")).first.click()
    page.wait_for_url("**/conversation**")
    expect(page.locator("#turn-3")).to_be_attached()
    page.locator("#turn-3").scroll_into_view_if_needed()
    expect(page.locator("button[data-copy]").first).to_be_visible()


def test_a_phone_finds_an_evaluation_by_its_short_id(page: Page, live_site: LiveSite) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    go(page, live_site, "/")
    page.get_by_role("link", name="Search").click()
    wanted = live_site.history.seeded.evaluations["passed"]
    page.get_by_role("combobox", name="Search").fill(str(wanted)[-8:])
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/evaluations/{wanted}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_from_the_overview_to_where_it_first_cheated_in_four_actions(
    page: Page, live_site: LiveSite
) -> None:
    page.goto(f"{live_site.url}/")
    page.get_by_role("link", name="Trajectories").click()
    page.wait_for_url("**/trajectories")
    live_site.complaints.clear()  # leaving ends the overview's requests
    page.get_by_role("row", name="matmul_relu/1").get_by_role("link").first.click()
    page.get_by_role("link", name="first hack:").click()
    assert "turn=2" in page.url
    expect(page.locator(".turns [aria-current]")).to_contain_text("first hack")
    page.get_by_role("link", name="Verdict").click()
    expect(page.locator("#verdict")).to_contain_text("Call 3 returned the answer of call 1")
    assert live_site.complaints == []


def test_a_stream_tells_of_a_commit(live_site: LiveSite) -> None:
    """Only committed rows, and soon: tests/bench/pages.py measures that it is within a second."""
    heard: list[float] = []
    request = urllib.request.Request(f"{live_site.url}/live?topics=devices")
    with urllib.request.urlopen(request, timeout=30) as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        stream.readline()  # the first event comes at once
        stream.readline()

        def listen() -> None:
            while not heard:
                if stream.readline().startswith(b"data:"):
                    heard.append(time.monotonic())

        listener = threading.Thread(target=listen)
        listener.start()
        time.sleep(0.5)
        assert not heard
        database = Database(live_site.history.settings.database_url or "")
        with database.begin() as connection:
            Seeder(connection).device("stream-node", "cpu", 3)
        listener.join(timeout=20)
        database.dispose()
        assert heard


def test_from_a_run_to_a_problem_to_a_trajectory(page: Page, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}/")
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_role("link", name="rl-step-120").click()
    page.get_by_role("row", name="softmax").get_by_role("link", name="trajectories").click()
    page.get_by_role("link", name="softmax/0").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("softmax")
    assert live_site.complaints == []


def test_a_selection_written_before_the_script_has_come_is_counted(
    page: Page, live_site: LiveSite
) -> None:
    """A browser shows the form before it runs the script; text typed until then must
    not be lost.
    """
    held: list[Route] = []
    page.route(
        "**/page.js*", lambda route: held.append(route)
    )  # a built-in one cannot be a handler
    page.goto(f"{live_site.url}/exports/new", wait_until="commit")
    page.get_by_label("Filter of evaluations").fill("speedup > 1.05")
    expect(page.locator("#funnel")).to_contain_text("Not counted yet")
    held[0].continue_()
    expect(page.locator("#funnel")).to_contain_text("speedup > 1.05", timeout=15_000)
    page.unroute("**/page.js*")


def test_a_count_that_does_not_arrive_says_so(page: Page, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}/exports/new")
    page.route("**/exports/funnel?*", lambda route: route.abort())
    page.get_by_label("Filter of evaluations").fill("speedup > 1.05")
    expect(page.locator("#funnel")).to_contain_text("Not counted (no answer)")
    page.unroute("**/exports/funnel?*")
    page.get_by_label("Filter of evaluations").fill("speedup > 1.06")
    expect(page.locator("#funnel")).to_contain_text("speedup > 1.06", timeout=15_000)
    aborted = [
        said for said in live_site.complaints if "ERR_FAILED" in said or "/exports/funnel?" in said
    ]
    assert aborted == live_site.complaints


def test_from_a_filter_to_a_downloaded_dataset(page: Page, live_site: LiveSite) -> None:
    _good_turns(live_site)
    page.goto(f"{live_site.url}/exports")
    page.get_by_role("link", name="New dataset").click()
    page.get_by_label("Filter of evaluations").fill("speedup > 1.05")
    expect(page.locator("#funnel")).to_contain_text("speedup > 1.05", timeout=15_000)
    page.get_by_text("More options").click()
    page.locator("#stale").select_option("rejudge")
    page.route(
        "**/exports/funnel?*", lambda route: route.abort()
    )  # an export does not wait for a count
    page.get_by_label("Filter of evaluations").fill("speedup > 1.04")
    page.get_by_role("button", name="Make the dataset").click()
    page.wait_for_url("**/exports/jobs/*")
    page.get_by_role("link", name="Open the dataset").click(
        timeout=90_000
    )  # it appears without reload
    expect(page.get_by_role("heading", level=1)).to_have_text("trl_sft")
    expect(page.get_by_role("heading", name="Card")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="data/").first.click()
    assert download.value.path().stat().st_size > 0
    with urllib.request.urlopen(f"{page.url}/manifest.json") as answer:
        manifest = json.load(answer)
    assert (manifest["where"], manifest["spec"]["stale"]) == ("speedup > 1.04", "rejudge")
    assert manifest["rows"] >= 1
    quiet = ("download", "err_failed", "/exports/funnel?")
    assert [
        one for one in live_site.complaints if not any(word in one.lower() for word in quiet)
    ] == []


def test_a_filter_becomes_a_dataset_by_keyboard_alone(page: Page, live_site: LiveSite) -> None:
    _good_turns(live_site, serial=30_000)
    go(page, live_site, "/candidates")
    _tab_to(page, page.get_by_label("Filter query"))
    page.keyboard.type("speedup > 1.05")
    page.keyboard.press("Escape")
    _tab_to(page, page.get_by_role("button", name="Filter", exact=True))
    page.keyboard.press("Enter")
    page.wait_for_url("**where=speedup*")
    _tab_to(page, page.get_by_role("link", name="Make a dataset", exact=True))
    page.keyboard.press("Enter")
    page.wait_for_url("**/exports/new**")
    _tab_to(page, page.get_by_text(re.compile("More options")))
    page.keyboard.press("Enter")
    _tab_to(page, page.locator("#stale"))
    page.keyboard.type("judge")
    expect(page.locator("#stale")).to_have_value("rejudge")
    _tab_to(page, page.get_by_role("button", name="Make the dataset"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/exports/jobs/*")
    opened = page.get_by_role("link", name="Open the dataset")
    expect(opened).to_be_visible(timeout=90_000)
    _tab_to(page, opened)
    page.keyboard.press("Enter")
    _tab_to(page, page.get_by_role("link", name="data/").first)
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.path().stat().st_size > 0


SEEN = """element => {
  const box = element.getBoundingClientRect(), style = getComputedStyle(element);
  return box.bottom > 0 && box.top < innerHeight && style.outlineStyle !== "none";
}"""


def _tab_to(page: Page, wanted: Locator) -> None:
    """Press Tab until the element has the focus, which is seen."""
    for _ in range(200):
        page.keyboard.press("Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            assert wanted.evaluate(SEEN), "the focus is not seen"
            return
    raise AssertionError(f"Tab does not reach {wanted}")


def _good_turns(live_site: LiveSite, serial: int = 0) -> None:
    """Turns for a dataset; each serial number makes other candidates."""
    database = Database(live_site.history.settings.database_url or "")
    with database.begin() as connection:
        seeder = Seeder(connection)
        seeder.serial = serial or seeder.serial
        exportable(seeder, live_site.history.seeded.problems[2])
    database.dispose()


def test_two_runs_are_compared_down_to_the_turns_that_became_worse(
    page: Page, two_runs: TwoRuns
) -> None:
    with serving(two_runs.settings) as url:
        page.goto(f"{url}/runs")
        for name in ("rl/100", "rl/200"):  # the first is the baseline
            page.get_by_role("checkbox", name=f"Compare {name}").check()
        page.get_by_role("button", name="Compare selected").click()
        page.wait_for_url("**/runs/compare?*run=*run=*")
        expect(page.get_by_role("row", name="Correct, difference to the baseline")).to_contain_text(
            "points"
        )
        expect(page.get_by_role("row", name="temperature")).to_contain_text("0.8")
        outcomes = page.get_by_role("navigation", name="Outcome")
        outcomes.get_by_role("link", name="worse").click()
        problems = page.locator("#problems tbody tr")
        expect(problems).to_have_count(1)
        expect(problems).to_contain_text("softmax")
        problems.get_by_role("link", name="0 of 12").click()
        page.wait_for_url(re.compile("/trajectories[?]run_id=[0-9a-f-]+&problem_id=[0-9a-f-]+"))
        asked = page.get_by_role("search", name="Filter trajectories")
        for name in ("rl/200", "softmax"):
            expect(asked.get_by_role("link", name=name)).to_be_visible()
        page.get_by_role("region", name="Results").locator("tbody th a").first.click()
        expect(page.locator("main h2").first).to_have_text("Turn 0")
        expect(page.locator(".pane")).to_contain_text("incorrect")


def test_a_candidate_is_submitted_watched_and_cancelled(
    page: Page, settings: Settings, start_worker: Callable[..., Popen[bytes]]
) -> None:
    with serving(settings) as url:
        page.goto(f"{url}/jobs")
        page.get_by_role("link", name="Submit a candidate").first.click()
        page.get_by_role("button", name="Submit", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("Not submitted")
        page.get_by_label("Reference", exact=True).fill("class Model: ...")
        page.get_by_label("Candidate", exact=True).fill("slow 600")
        page.get_by_role("button", name="Submit", exact=True).click()
        page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}"))
        state = page.locator("[data-live] .badge").first
        expect(state).to_have_text("queued")
        start_worker(module=fakes.WORKER)
        expect(state).to_have_text("running", timeout=60_000)  # without reload
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("[data-live] .badge").first).to_have_text("cancelled", timeout=30_000)
        page.get_by_role("link", name="Edit and submit").click()
        expect(page.get_by_label("Candidate", exact=True)).to_have_value("slow 600")
        page.get_by_label("Candidate", exact=True).fill("wrong")
        page.get_by_role("button", name="Submit", exact=True).click()
        page.get_by_role("link", name="Open evaluation").click(
            timeout=60_000
        )  # it appears without reload
        expect(page.locator("main")).to_contain_text("incorrect")


def test_a_review_makes_a_dataset_stale_and_its_undo_makes_it_fresh(
    page: Page, live_site: LiveSite, tmp_path: Path
) -> None:
    database = Database(live_site.history.settings.database_url or "")
    with database.begin() as connection:
        seeder = Seeder(connection)
        seeder.serial = 20_000  # other candidates than those of the fixture
        exportable(seeder, live_site.history.seeded.problems[2])
    export.export(database, export.Spec(format="trl_sft", stale=Stale.REJUDGE), tmp_path / "set")
    with database.begin() as connection:
        [row, *_] = connection.execute(tables.export_rows.select()).all()
    database.dispose()
    go(page, live_site, "/exports")
    page.locator("table.list tbody th a").first.click()
    dataset = page.url
    expect(page.locator(".title .badge")).to_have_text("fresh")
    go(page, live_site, f"/search?q={str(row.evaluation_id)[-8:]}")
    page.get_by_role("link", name="Review", exact=True).last.click()
    page.wait_for_url("**/review/0*")
    page.keyboard.press("2")
    expect(page.locator("#reason")).to_be_focused()
    page.keyboard.type("line 6 returns its input")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    after = page.url
    page.goto(dataset)
    expect(page.locator(".title")).to_contain_text("clean → hack")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(after)
    expect(page.get_by_role("button", name="Undo")).to_be_in_viewport()
    page.get_by_role("link", name="To your verdict").click()
    expect(page.get_by_role("radio", name="clean")).to_be_in_viewport()
    with page.expect_navigation():
        page.keyboard.press("z")
    page.goto(dataset)
    expect(page.locator(".title .badge")).to_have_text("fresh")
