"""Every page in a browser, the first of each kind in both themes: no accessibility fault, no
complaint, no sideways scroll on a phone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

from app.embedded import Services
from tests.integration import every_page
from tests.integration.browser_site import serving
from tests.integration.every_page import Everything
from tests.integration.web_app import opened

RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
    "preload": False,
}
COLOURS = {
    "runOnly": ["color-contrast", "link-in-text-block"],
    "resultTypes": ["violations"],
    "preload": False,
}
"""Rules with an answer that depends on the theme."""
EXPECTED = ("responded with a status of 400", "verbose: [DOM]")
"""Console lines of pages that show a filter's fault, and advice of Chromium."""
LOGIN = "/login"
LAID_OUT_S = 5.0
"""Longest wait in seconds for a page's layout in another width."""
SHIFT_LIMIT = 0.1
"""Cumulative layout shift that Core Web Vitals calls good."""
SHIFTS = """window.shifted = 0;
new PerformanceObserver(list => {
  for (const each of list.getEntries()) if (!each.hadRecentInput) window.shifted += each.value;
}).observe({ type: "layout-shift", buffered: true });"""
PHONE, DESK = ViewportSize(width=360, height=800), ViewportSize(width=1280, height=900)


@pytest.fixture(scope="module")
def everything(
    services: Services, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Everything]:
    with every_page.filled(services, tmp_path_factory.mktemp("every-page")) as found:
        yield found


@pytest.fixture(scope="module")
def url(everything: Everything) -> Iterator[str]:
    with serving(everything.settings) as address:
        yield address


@pytest.fixture(scope="module")
def reader(browser: Browser, url: str) -> Iterator[BrowserContext]:
    """A browser that is logged in as an administrator."""
    context = browser.new_context(viewport=DESK, reduced_motion="reduce")
    context.add_init_script(SHIFTS)
    page = context.new_page()
    page.goto(f"{url}/login")
    page.fill("#name", every_page.NAME)
    page.fill("#password", every_page.PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{url}/")
    page.close()
    yield context
    context.close()


def test_every_route_with_a_page_is_visited(everything: Everything) -> None:
    with opened(everything.settings) as app:
        assert set(everything.paths) == every_page.endpoints_of(app)


@pytest.mark.timeout(900)
def test_no_page_has_a_fault(reader: BrowserContext, everything: Everything, url: str) -> None:
    page = reader.new_page()
    said = complaints(page)
    for paths in everything.paths.values():
        for path in paths:
            if path != LOGIN:  # a logged-in person gets the overview there
                said += seen(page, url, path, is_dark_too=path == paths[0])
    page.close()
    assert not unexpected(said), "\n".join(said)


def test_the_login_has_no_fault(browser: Browser, url: str) -> None:
    context = browser.new_context(viewport=DESK, reduced_motion="reduce")
    page = context.new_page()
    said = complaints(page)
    said += seen(page, url, LOGIN, is_dark_too=True)
    assert page.url == url + LOGIN
    context.close()
    assert not unexpected(said), "\n".join(said)


def complaints(page: Page) -> list[str]:
    """Complaints of the page; grows while it runs."""
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{page.url} {message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"{page.url} {error}"))
    return said


def unexpected(said: list[str]) -> list[str]:
    return [one for one in said if not any(word in one for word in EXPECTED)]


def seen(page: Page, url: str, path: str, *, is_dark_too: bool) -> list[str]:
    """Faults of one page: on a desk in one theme or both, and on a phone."""
    page.set_viewport_size(DESK)
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    visit(page, url + path)
    found = [] if page.locator("main h1").count() == 1 else [f"{path} has no heading of its own"]
    page.evaluate(Axe().axe_script)
    found += faults(page, path, RULES)
    if (shifted := page.evaluate("window.shifted || 0")) > SHIFT_LIMIT:
        found.append(f"{path} moves by itself: layout shift {shifted:.3f}")
    if is_dark_too:
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        found += faults(page, f"{path} (dark)", COLOURS)
    page.set_viewport_size(PHONE)
    return found + too_wide(page, path)


def too_wide(page: Page, path: str) -> list[str]:
    """Whether it scrolls sideways, once it is laid out anew.  The width is asked for again and
    again: a function that waits in the page is against the pages' Content Security Policy.
    """
    until = time.monotonic() + LAID_OUT_S
    while (width := page.evaluate("document.documentElement.scrollWidth")) > PHONE["width"]:
        if time.monotonic() > until:
            return [f"{path} is {width} px wide on a phone"]
        page.wait_for_timeout(50)
    return []


def faults(page: Page, name: str, options: dict[str, Any]) -> list[str]:
    """Faults that axe, which the page has loaded, finds."""
    found = page.evaluate("options => axe.run(document, options)", options)["violations"]
    return [
        f"{name} {each['id']}: {node['html'][:160]}" for each in found for node in each["nodes"]
    ]


def visit(page: Page, address: str) -> None:
    answer = page.goto(address, wait_until="load")
    assert answer is not None
    wrong = "where=clean" in address or "correct+and+clean" in address
    assert answer.status == (400 if wrong else 200), address
