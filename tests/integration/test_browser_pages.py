"""Pages in a real Chromium without JavaScript, and without anything from elsewhere."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from app.web import security_headers
from tests.integration.browser_site import LiveSite

OUTSIDE = """Array.from(
    document.querySelectorAll(".frame:not([hidden]) text:not(.spare)")).filter(text => {
  const card = text.closest(".card").getBoundingClientRect(), box = text.getBoundingClientRect();
  return box.left < card.left || box.right > card.right;
}).map(text => text.textContent)"""
"""Labels that reach out of their card."""
SIZE = "text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a"
"""Height of a label's text in pixels, as drawn."""


def test_nothing_comes_from_elsewhere(page: Page, live_site: LiveSite) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(live_site.url + live_site.path("passed"), wait_until="networkidle")
    assert asked
    assert all(url.startswith(live_site.url) for url in asked)


def test_pages_read_without_javascript(browser: Browser, live_site: LiveSite) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(live_site.url + live_site.path("hack"))
    expect(page.locator("time").first).to_contain_text("ago")
    expect(page.locator("button[data-copy]").first).to_be_hidden()
    page.goto(f"{live_site.url}/")
    expect(page.locator("button[data-pause]")).to_be_hidden()
    context.close()


def test_every_tab_reads_without_javascript(browser: Browser, live_site: LiveSite) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(live_site.url + live_site.path("split"))
    for tab in (
        "Prompt",
        "Response",
        "Code",
        "Diff",
        "Compile log",
        "Correctness",
        "Timing",
        "Profile",
        "Verdict",
        "Raw",
    ):
        page.get_by_label("Views of turn").get_by_role("link", name=tab).click()
        expect(page.locator(".tabs [aria-current]")).to_have_text(tab)
        assert page.locator(".pane").inner_text().count("\n") > 5
    context.close()


def test_a_timeline_opens_in_speedscope_by_one_click(page: Page, live_site: LiveSite) -> None:
    """Without `eval`: the policy of the page would refuse it."""
    page.goto(live_site.url + live_site.path("timeline"))
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Open in speedscope").click()
    viewer = opened.value
    expect(viewer.get_by_text("Sandwich")).to_be_visible()
    expect(viewer.get_by_text("softmax (1/2)")).to_be_visible()
    policy = viewer.evaluate(
        "fetch(location.pathname).then(answer => answer.headers.get('content-security-policy'))"
    )
    assert policy == f"{security_headers.POLICY}; style-src 'self' 'unsafe-inline'"
    live_site.complaints.clear()


@pytest.mark.parametrize("width", [1900, 1300, 360])
def test_charts_fit_their_cards_with_legible_text(
    page: Page, live_site: LiveSite, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    for path in ("/?hours=72", live_site.path("passed")):
        page.goto(live_site.url + path)
        page.wait_for_selector("svg.frame")
        assert page.evaluate(OUTSIDE) == []
        assert (
            min(
                page.evaluate(
                    f"Array.from(document.querySelectorAll('.frame:not([hidden]) text'), {SIZE})"
                )
            )
            >= 11
        )


def test_the_device_time_has_a_tooltip_and_can_be_asked_for(
    page: Page, live_site: LiveSite
) -> None:
    meaning = (
        "Speedup without the host's launching, of calls replayed from CUDA graphs; not credited."
    )
    value = page.locator("#timing dt", has_text="Device-time speedup").locator("+ dd")
    page.goto(live_site.url + live_site.path("passed"))
    expect(page.locator("#timing dt", has_text="Device-time speedup")).to_have_attribute(
        "title", meaning
    )
    expect(value).to_contain_text("not measured: CUDA graphs need a GPU, not <b>this</b>")
    page.goto(f"{live_site.url}/evaluations/{live_site.history.seeded.evaluations['gpu']}")
    expect(value).to_contain_text("per call, from CUDA graphs")
    page.goto(f"{live_site.url}/jobs/new")
    page.get_by_text("Options of the evaluation").click()
    page.get_by_label("Device-time speedup").check()


def test_paper_is_light_and_whole(page: Page, live_site: LiveSite) -> None:
    page.set_viewport_size({"width": 800, "height": 600})
    page.goto(f"{live_site.url}/candidates")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    for control in (".top nav", ".filters", "button[name=action]", "footer"):
        expect(page.locator(control).first).to_be_hidden()
    cut = "box => [getComputedStyle(box).overflowY, getComputedStyle(box).maxHeight]"
    assert page.locator(".scroll").first.evaluate(cut) == ["visible", "none"]
    card = page.locator("section.card").first.bounding_box()
    assert card is not None
    assert card["width"] > 700, "no column is left for the facets"
