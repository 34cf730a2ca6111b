"""Pages in a real Chromium: links of lines, copies, keys, live figures, verdicts,
timelines, completion.
"""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect

from app.domain import ids
from app.store import tables
from app.store.postgres.database import Database
from tests.integration.browser_site import LiveSite
from tests.integration.web_seeder import Seeder

TWO_CLICKS = """button => {
  button.click();
  setTimeout(() => button.click(), 40);
}"""
"""The first click's request has left before the second comes, which a quick answer forestalls."""


def test_a_filter_is_a_url_without_empty_fields(page: Page, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}/candidates")
    page.select_option("#verdict", "hack")
    page.fill("#where", "problem = matmul_relu")
    page.press("#where", "Enter")
    page.wait_for_url("**/candidates?verdict=hack&where=*")
    assert page.url.partition("&columns=")[0].endswith(
        "?verdict=hack&where=problem+%3D+matmul_relu"
    )
    expect(page.locator("#where")).to_have_value("problem = matmul_relu")
    page.go_back()
    expect(page.locator("#problem")).to_be_enabled()


def test_a_line_of_code_has_a_link_of_its_own(page: Page, live_site: LiveSite) -> None:
    page.goto(live_site.url + live_site.path("passed"))
    page.click("#candidate-9 a")
    page.wait_for_url("**#candidate-9")
    expect(page.locator("#candidate-9 td").last).to_have_css(
        "background-color", "rgb(251, 239, 217)"
    )


def test_copying_gives_the_code_without_line_numbers(page: Page, live_site: LiveSite) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(live_site.url + live_site.path("passed"))
    page.click("button[data-copy=candidate]")
    expect(page.locator("button[data-copy=candidate]")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("import torch\nimport torch.nn as nn\n")
    assert "def softmax_kernel(" in copied


def test_the_keyboard_reaches_the_content_first(page: Page, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}/")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**#content")


def test_a_form_that_is_sent_twice_at_once_is_stored_once(page: Page, live_site: LiveSite) -> None:
    page.goto(live_site.url + live_site.path("trajectory"))
    page.get_by_label("Comment (Markdown)").fill("said once")
    page.get_by_role("button", name="Comment", exact=True).evaluate(TWO_CLICKS)
    expect(page.get_by_text("said once")).to_have_count(1)
    page.wait_for_timeout(300)
    page.reload()
    expect(page.get_by_text("said once")).to_have_count(1)


def test_the_overview_follows_what_is_stored_until_it_is_paused(
    page: Page, live_site: LiveSite
) -> None:
    page.goto(f"{live_site.url}/")
    shown = page.locator("[data-live]")
    expect(shown).not_to_contain_text("fresh-node.7")
    _report_device(live_site, "fresh-node", 7)
    expect(shown).to_contain_text("fresh-node.7", timeout=15_000)
    page.click("button[data-pause]")
    expect(page.locator("button[data-pause]")).to_contain_text("Paused")
    _report_device(live_site, "late-node", 8)
    page.wait_for_timeout(3000)
    expect(shown).not_to_contain_text("late-node.8")
    page.click("button[data-pause]")
    expect(shown).to_contain_text("late-node.8", timeout=15_000)
    assert live_site.complaints == []


def test_a_filter_that_is_gone_back_to_shows_what_its_list_has(
    page: Page, live_site: LiveSite
) -> None:
    page.goto(f"{live_site.url}/candidates")
    page.select_option("#status", "passed")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**status=passed*")
    page.locator("a[href^='/evaluations/']").first.click()
    page.wait_for_url("**/evaluations/*")
    page.go_back()
    expect(page.locator("#status")).to_have_value("passed")
    page.go_back()
    expect(page.locator("#status")).to_have_value("")


def test_the_overview_changes_under_the_focus_which_stays(page: Page, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}/")
    shown = page.locator("[data-live]")
    link = shown.get_by_role("link", name="All evaluations")
    link.focus()
    _report_device(live_site, "under-focus", 5)
    expect(shown).to_contain_text("under-focus.5", timeout=15_000)
    expect(link).to_be_focused()
    chart = shown.locator("figure").first
    chart.focus()
    _report_device(live_site, "under-chart", 6)
    expect(page.locator("button[data-pause]")).to_contain_text("Held", timeout=15_000)
    expect(chart).to_be_focused()
    link.focus()
    expect(shown).to_contain_text("under-chart.6", timeout=15_000)
    expect(page.locator("button[data-pause]")).to_contain_text("Live")
    assert live_site.complaints == []


def test_a_trajectory_is_walked_with_keys(page: Page, live_site: LiveSite) -> None:
    page.goto(live_site.url + live_site.path("trajectory"))
    turns = (("j", "turn=1"), ("j", "turn=2"), ("k", "turn=1"))
    tabs = (
        ("7", "tab=timing"),
        ("d", "tab=diff"),
        ("3", "tab=code"),
        ("4", "tab=diff"),
        ("i", "tab=ir"),
        ("0", "tab=raw"),
    )
    for key, expected in (*turns, *tabs):
        page.keyboard.press(key)
        page.wait_for_url(f"**{expected}**")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next turn")
    page.get_by_label("single-key shortcuts").uncheck()
    page.keyboard.press("Escape")
    before = page.url
    page.keyboard.press("j")
    page.wait_for_timeout(300)
    assert page.url == before
    page.evaluate("localStorage.clear()")
    assert live_site.complaints == []


def test_ten_verdicts_by_keyboard(page: Page, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}/review")
    page.keyboard.press("n")
    page.wait_for_url("**/review/0*")
    judged = []
    for number in range(10):
        judged.append(page.url.split("/review/")[1][:36])
        page.keyboard.press(str(1 + number % 2))
        expect(page.locator("#reason")).to_be_focused()
        page.keyboard.type(f"verdict {number}: line 25")
        with page.expect_navigation():
            page.keyboard.press("Enter")
    assert len(set(judged)) == 10
    with page.expect_navigation():
        page.keyboard.press("z")
    assert judged[-1] in page.url
    page.goto(f"{live_site.url}/review")
    expect(page.get_by_role("region", name="Latest verdicts")).to_contain_text("verdict 8: line 25")
    assert live_site.complaints == []


def test_the_keyboard_alone_reaches_everything_on_a_turn(page: Page, live_site: LiveSite) -> None:
    page.goto(live_site.url + live_site.path("split"))
    wanted = page.evaluate(REACHABLE)
    seen = []
    for _ in range(len(wanted) + 5):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.outerHTML.slice(0, 90)"))
        assert page.evaluate(OUTLINED), seen[-1]
    assert set(wanted) <= set(seen)


def test_a_timeline_is_drawn_and_moves(page: Page, live_site: LiveSite) -> None:
    page.goto(live_site.url + live_site.path("timeline"))
    expect(page.locator("#timeline")).to_have_attribute("data-drawn", "yes")
    expect(page.locator("#timeline-events")).to_contain_text("softmax_kernel")
    expect(page.locator("#timeline-events")).to_contain_text(
        "ahead-of-time compilation"
    )  # `precompile` in the file
    canvas = page.locator("canvas")
    before = canvas.evaluate("canvas => canvas.toDataURL()")
    canvas.focus()
    page.keyboard.press("+")
    page.wait_for_timeout(200)
    assert canvas.evaluate("canvas => canvas.toDataURL()") != before
    assert live_site.complaints == []


def test_a_theme_is_kept_from_page_to_page(page: Page, live_site: LiveSite) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(f"{live_site.url}/glossary")
    button, background = (
        page.locator("[data-theme-choice]"),
        "getComputedStyle(document.documentElement).backgroundColor",
    )
    light = page.evaluate(background)
    for name in ("light", "dark"):
        button.click()
        expect(button).to_have_text(f"Theme: {name}")
    dark = page.evaluate(background)
    assert dark != light
    page.goto(f"{live_site.url}/runs")
    assert page.evaluate(background) == dark
    button.click()
    expect(button).to_have_text("Theme: system")
    page.reload()
    assert page.evaluate(background) == light
    assert live_site.complaints == []


def test_moments_are_in_the_readers_time_zone_with_utc_in_the_title(
    browser: Browser, live_site: LiveSite
) -> None:
    context = browser.new_context(timezone_id="Asia/Kolkata")
    page = context.new_page()
    page.goto(f"{live_site.url}/jobs/{live_site.history.seeded.jobs['running']}")
    moment = page.locator("dt:text-is('Created') + dd time").first
    expect(moment).to_have_text(re.compile(r"\d\d:\d\d:\d\d GMT\+5:30$"))
    expect(moment).to_have_attribute("title", re.compile(r"UTC$"))
    expect(page.locator("footer")).to_contain_text("Times in GMT+5:30")
    context.close()


def test_two_ticked_candidates_are_compared(page: Page, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}/candidates?status=passed&problem=softmax")
    button = page.get_by_role("button", name="Compare two")
    expect(button).to_be_disabled()
    for number in range(2):
        page.locator("input[name=id]").nth(number).check()
    button.click()
    page.wait_for_url("**/compare?a=*")
    assert live_site.complaints == []


REACHABLE = """
() => Array.from(
    document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']"))
  .filter((element) => element.checkVisibility() && !element.disabled && element.type !== "hidden")
  .map((element) => element.outerHTML.slice(0, 90))
"""

OUTLINED = """
() => {
  const element = document.activeElement;
  const style = getComputedStyle(element);
  return element === document.body
    || style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
}
"""


def _report_device(live_site: LiveSite, node: str, index: int) -> None:
    database = Database(live_site.history.settings.database_url or "")
    with database.begin() as connection:
        Seeder(connection).device(node, "cpu", index)
    database.dispose()


def test_orders_columns_and_completion_in_a_browser(page: Page, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}/candidates")
    page.get_by_role("link", name="Speedup").click()
    page.wait_for_url("**/candidates?sort=-speedup")
    page.locator("th[aria-sort=descending]").get_by_text("Speedup").wait_for()
    page.evaluate("window.scrollTo(0, document.body.scrollHeight / 2)")
    assert (
        page.evaluate(
            "document.querySelector('table.list thead th:nth-child(2)').getBoundingClientRect().top"
        )
        >= 0
    )
    page.keyboard.press("f")
    page.keyboard.type("status = pa")
    expect(page.locator(".completions [role=option]").first).to_contain_text("passed")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    expect(page.locator("#where")).to_have_value("status = passed ")
    page.keyboard.type("and")
    page.keyboard.press("Escape")
    page.fill("#where", "status = passed")
    page.keyboard.press("Enter")
    page.wait_for_url("**where=status*")
    assert "sort=-speedup" in page.url
    assert live_site.complaints == []


def test_a_short_id_leads_to_its_page_by_keyboard_alone(page: Page, live_site: LiveSite) -> None:
    wanted = live_site.history.seeded.evaluations["passed"]
    page.goto(f"{live_site.url}/trajectories")
    page.keyboard.press("/")
    field = page.get_by_role("combobox", name="Search")
    expect(field).to_be_focused()
    page.keyboard.type(str(wanted)[-8:])
    expect(page.locator("#hits [role=option]").first).to_contain_text("evaluation")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#hits [role=option]").first).to_have_attribute("aria-selected", "true")
    live_site.complaints.clear()  # leaving ends the page's requests
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/evaluations/{wanted}")
    page.keyboard.press("Control+k")
    page.keyboard.type("softmax")
    expect(page.locator("#hits [role=option]").first).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=softmax")
    expect(page.get_by_role("region", name="Results")).to_contain_text("softmax")
    assert live_site.complaints == []


def test_the_list_of_keys_opens_on_its_close_button(page: Page, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}/problems")
    page.keyboard.press("?")
    expect(page.get_by_role("button", name="Close")).to_be_focused()
    expect(page.get_by_role("dialog")).to_contain_text("next row of a list")


def test_escape_gives_the_focus_back_to_where_a_dialog_was_opened(
    page: Page, live_site: LiveSite
) -> None:
    page.goto(f"{live_site.url}/problems")
    row = page.locator("table.list tbody tr").nth(1).locator("a").first
    for _ in range(2):
        page.keyboard.press("j")
    for key in ("/", "Control+k", "?"):
        page.keyboard.press(key)
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(row).to_be_focused()


def test_rows_of_a_list_are_walked_by_keys(page: Page, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}/problems")
    rows = page.locator("table.list tbody tr")
    for key, place in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        page.keyboard.press(key)
        expect(rows.nth(place).locator("a").first).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/problems/*")


def test_no_more_runs_are_ticked_than_are_compared(page: Page, live_site: LiveSite) -> None:
    database = Database(live_site.history.settings.database_url or "")
    with database.begin() as connection:
        for number in range(6):
            Seeder(connection).insert(
                tables.runs, run_id=ids.new_id(), name=f"run {number}", settings={}
            )
    database.dispose()
    page.goto(f"{live_site.url}/runs")
    button = page.get_by_role("button", name="Compare selected")
    expect(button).to_be_disabled()
    box = button.bounding_box()
    assert box is not None
    assert box["y"] < 600, "above the rows"
    for number in range(4):
        page.get_by_label(f"Compare run {number}").check()
    expect(page.get_by_label("Compare run 5")).to_be_disabled()
    expect(page.get_by_text("4 selected:")).to_be_visible()
    button.click()
    expect(page.locator("h1")).to_have_text("Compare runs")


def test_a_filtered_list_becomes_a_dataset_in_three_clicks(page: Page, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}/candidates")
    page.fill("#where", "correct and speedup > 1.1")
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_role("link", name="Make a dataset", exact=True).click()
    expect(page.get_by_label("Filter of evaluations")).to_have_value("correct and speedup > 1.1")
    expect(page.get_by_role("button", name="Make the dataset")).to_be_enabled()
