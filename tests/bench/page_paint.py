"""Times of pages in a browser: first content, and live updates."""

from __future__ import annotations

import statistics
import time

from playwright.sync_api import Browser, expect

from app.domain import ids
from app.domain.device import DeviceId
from app.store.postgres.database import Database
from app.store.queue import devices

FIRST_CONTENTS = 5
"""Loads of each kind of page in Chromium."""
OPENED_S = 0.5
"""Wait between the opening of a window and the page: Chromium draws the window's own frame by
processes of its own, which would otherwise take the cores from the page that is measured.
"""
UPDATES = 20
PAINT_S = 30.0
"""Longest time in seconds from the end of loading to the first content."""
PAINTED = "(performance.getEntriesByName('first-contentful-paint')[0] || {startTime: 0}).startTime"


def first_content_ms(
    browser: Browser, url: str, pages: dict[str, list[str]]
) -> dict[str, dict[str, float]]:
    """First contentful paint by kind, as the browser reports it, each in a window and a context
    of its own: nothing cached.  The kinds take turns, so that a burst of other work on the
    machine is not that of one kind.
    """
    times: dict[str, list[float]] = {name: [] for name in pages}
    for number in range(FIRST_CONTENTS):
        for name, listed in pages.items():
            times[name].append(_painted_ms(browser, url + listed[number % len(listed)]))
    return {
        name: {"p50": round(statistics.median(each), 1), "max": round(max(each), 1)}
        for name, each in times.items()
    }


def _painted_ms(browser: Browser, address: str) -> float:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    time.sleep(OPENED_S)
    page.goto(address, wait_until="load")
    deadline = time.monotonic() + PAINT_S
    while not (found_ms := float(page.evaluate(PAINTED))):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{address} painted nothing within {PAINT_S:g} s")
        time.sleep(0.01)
    context.close()
    return found_ms


def update_ms(browser: Browser, url: str, database: Database) -> dict[str, float]:
    """From the commit of a new device to its name on an overview that is open."""
    page = browser.new_page()
    page.goto(f"{url}/", wait_until="load")
    page.wait_for_timeout(1500)
    times = []
    for _ in range(UPDATES):
        node = f"bench-{ids.new_id().hex[-8:]}"
        with database.begin() as connection:
            devices.register(
                connection, DeviceId(device_class="cpu", node=node, index=0), worker=f"bench@{node}"
            )
        committed = time.perf_counter()
        expect(page.locator(".devices")).to_contain_text(node, timeout=30_000)
        times.append(1000 * (time.perf_counter() - committed))
    page.close()
    return {
        "p50": round(statistics.median(times), 1),
        "p95": round(sorted(times)[-2], 1),
        "max": round(max(times), 1),
    }
