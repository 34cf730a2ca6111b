"""Values of charts by pointer and by keyboard, and the switch between scales, in a
real Chromium.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.integration.browser_site import LiveSite

SHARES = "Shares correct and faster than the reference by turn"
SPEEDUPS = "Distribution of credited speedups"
BLOCKS = "Time per call of each block"


def _run(page: Page, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}/runs?name=rl-step-120")
    page.get_by_role("link", name="rl-step-120").click()


def _chart(page: Page, title: str) -> Locator:
    return page.locator(f'figure[aria-label^="{title}"][data-reads]')


def _point(page: Page, chart: Locator, across: float, down: float = 0.5) -> None:
    """Move the pointer to a share of the drawn frame's width and height."""
    chart.scroll_into_view_if_needed()
    box = chart.locator("svg[role=img]:visible").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])


def test_a_chart_says_its_values_where_it_is_pointed_at(page: Page, live_site: LiveSite) -> None:
    _run(page, live_site)
    chart = _chart(page, SHARES)
    reading = chart.locator(".reading")
    expect(reading).to_be_hidden()
    _point(page, chart, 0.98)
    expect(reading).to_contain_text("turn: 3")
    expect(reading.locator(".line")).to_have_count(4)
    expect(reading).to_contain_text("correct, best so far 100.0 % (95 % CI")
    _point(page, chart, 0.01)
    expect(reading).to_contain_text("turn: 0")
    page.mouse.move(5, 5)
    expect(reading).to_be_hidden()
    assert live_site.complaints == []


def test_arrow_keys_walk_through_the_values(page: Page, live_site: LiveSite) -> None:
    _run(page, live_site)
    chart = _chart(page, SHARES)
    reading = chart.locator(".reading")
    chart.focus()
    for key, turn in (
        ("ArrowRight", 0),
        ("ArrowRight", 1),
        ("End", 3),
        ("ArrowLeft", 2),
        ("Home", 0),
    ):
        page.keyboard.press(key)
        expect(reading).to_contain_text(f"turn: {turn}")
    page.keyboard.press("Escape")
    expect(reading).to_be_hidden()
    page.keyboard.press("ArrowLeft")
    expect(reading).to_contain_text("turn: 3")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(reading).to_be_hidden()
    page.keyboard.press("End")
    expect(reading).to_be_visible()
    page.keyboard.press("Tab")
    expect(reading).to_be_hidden()


def test_a_ratio_is_switched_to_another_scale(page: Page, live_site: LiveSite) -> None:
    _run(page, live_site)
    chart = _chart(page, SPEEDUPS)
    button = chart.get_by_role("button")
    expect(button).to_have_text("Linear scale")
    places = "svg => Array.from(svg.querySelectorAll('circle'), mark => mark.getAttribute('cx'))"
    before = chart.locator("svg[role=img]:visible").evaluate(places)
    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_text("Logarithmic scale")
    expect(chart.locator("svg[role=img]:visible")).to_have_count(1)
    assert chart.locator("svg[role=img]:visible").evaluate(places) != before
    _point(page, chart, 0.99)
    expect(chart.locator(".reading")).to_contain_text("credited speedup over eager: 1.47×")


@pytest.mark.parametrize("scale", ["logarithmic", "linear"])
def test_timed_blocks_are_read_one_by_one(page: Page, live_site: LiveSite, scale: str) -> None:
    page.goto(live_site.url + live_site.path("passed"))
    chart = _chart(page, BLOCKS)
    expect(chart).to_be_visible()
    if scale == "linear":
        chart.get_by_role("button", name="Linear scale").click()
    chart.focus()
    page.keyboard.press("Home")
    expect(chart.locator(".reading")).to_contain_text("group 0, ")
    expect(chart.locator(".reading")).to_contain_text("per call over")
    expect(chart.locator("svg[role=img]:visible .pointed")).to_have_count(1)
    assert chart.locator("title").count() == 0, "the browser would show the words a second time"
    assert live_site.complaints == []


def test_bars_say_their_parts(page: Page, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}/?hours=72")
    chart = _chart(page, "Evaluations by status over time")
    _point(page, chart, 0.99)
    expect(chart.locator(".reading .line").first).to_contain_text("passed")
    throughput = _chart(page, "Evaluations per minute")
    _point(page, throughput, 0.5)
    expect(throughput.locator(".reading")).to_contain_text(":")


def test_a_chosen_scale_is_kept_when_the_page_changes_by_itself(
    page: Page, live_site: LiveSite
) -> None:
    _run(page, live_site)
    chart = _chart(page, SPEEDUPS)
    chart.get_by_role("button").click()
    page.mouse.move(5, 5)
    page.evaluate("document.activeElement.blur()")
    page.evaluate("""() => {
        const region = document.querySelector("[data-live]");
        return fetch(region.dataset.live).then(answer => answer.text()).then(markup => {
            region.innerHTML = markup;
            document.dispatchEvent(new Event("assay:swapped"));
        });
    }""")
    expect(_chart(page, SPEEDUPS).get_by_role("button")).to_have_text("Logarithmic scale")


def test_a_finger_reads_a_chart_on_a_phone(browser: Browser, live_site: LiveSite) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    _run(page, live_site)
    chart = _chart(page, SHARES)
    chart.scroll_into_view_if_needed()
    box = chart.locator("svg[role=img]").first.bounding_box()
    assert box is not None
    page.touchscreen.tap(box["x"] + 0.98 * box["width"], box["y"] + 60)
    reading = chart.locator(".reading")
    expect(reading).to_contain_text("turn: 3")
    shown = reading.bounding_box()
    assert shown is not None
    assert shown["x"] >= 0
    assert shown["x"] + shown["width"] <= 390
    page.touchscreen.tap(box["x"] + 20, max(2.0, box["y"] - 60))
    expect(reading).to_be_hidden()
    context.close()
